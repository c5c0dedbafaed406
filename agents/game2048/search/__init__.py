"""Search algorithms of 2048 over a value function."""
