"""Quasi-greedy learning of N-tuple networks (Matsuzaki)."""
