"""Imported by the server of forks: loads the default players, which all its processes share."""

import os

from afterstate.web.thinking import workers

LOADS = "AFTERSTATE_WEB_PRELOAD"
"""Variable of the environment that is set in the server of forks."""

if LOADS in os.environ:
    workers.warm_up()
