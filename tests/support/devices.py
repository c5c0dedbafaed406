"""Marks of tests that use a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
"""Skips a test where there is no GPU."""

on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
"""Gives a test the devices on which it is run, as `device`."""
