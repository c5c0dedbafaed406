"""The game 2048: rules, environment, vector environment and pictures."""
