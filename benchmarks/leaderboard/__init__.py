"""The leaderboard: every player on the same games."""
