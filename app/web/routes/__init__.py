"""The addresses of the page, by view, and what they do."""
