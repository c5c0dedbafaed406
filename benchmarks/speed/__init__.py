"""Speed of environments, players and learners, compared with other programs."""
