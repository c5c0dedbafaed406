"""Learners of 2048: temporal differences, imitation and search."""
