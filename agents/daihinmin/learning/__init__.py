"""Learners of Daihinmin: from recorded games and self-play."""
