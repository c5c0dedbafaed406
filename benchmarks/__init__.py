"""Measurements of afterstate: speed, the papers' experiments, and their results.

Run as a package from the root of the checkout, for example `python -m benchmarks.speed`. The folder
`leaderboard` is the package `afterstate.leaderboard`.
"""
