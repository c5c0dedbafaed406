"""Value functions and policies of 2048."""
