"""Value functions and policies of 2048: what a board is worth, or which move to make."""
