"""Programs of the package that are stopped and killed for hours: see `__main__.py`."""
