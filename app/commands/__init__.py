"""The commands of `afterstate`: a module each, with the options of all in `options.py`."""
