"""The routes of the page, by view."""
