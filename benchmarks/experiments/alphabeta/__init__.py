"""The terms of 2048-AI's evaluation, left out in turn."""
