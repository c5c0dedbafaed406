"""Afterstates of Daihinmin: how to reach them, forced wins, values of places, symmetries."""
