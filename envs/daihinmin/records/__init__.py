"""Recorded games of Daihinmin: their file format and their check against the rules."""
