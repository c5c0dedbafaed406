"""Searches of 2048 that look ahead with a value function."""
