"""Recorded games of Daihinmin: their file format and a check against the rules."""
