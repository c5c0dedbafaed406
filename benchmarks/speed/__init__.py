"""Speed of environments, players and learners, beside other programs."""
