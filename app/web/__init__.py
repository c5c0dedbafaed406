"""The web page: play both games, watch players, ask for hints, and see a network learn.

    afterstate web

`server.py` has the addresses, `guard.py` the checks of every request, `visitors.py` the games of
each visitor, `thinking/` the processes in which players search. Needs the extra `web`.
"""
