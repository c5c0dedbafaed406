"""Fuzzing of file readers: damaged files are read correctly or refused, soon and in little memory.

    make fuzz                                    # an hour, all readers
    make fuzz ARGS="--minutes 5 --only games"    # one of them

Files of every format are mutated (`mutations.py`) and read (`targets.py`) in a process whose memory
and time are limited (`driver.py`). A reader may raise nothing but OSError and a ValueError that
names the file. Inputs that fail are kept.
"""
