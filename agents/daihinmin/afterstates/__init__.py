"""Afterstates of Daihinmin: how to reach them, sure wins, values of places, symmetries."""
