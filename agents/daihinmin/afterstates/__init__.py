"""Afterstates of Daihinmin: where they lead, what they are worth for certain, symmetries."""
