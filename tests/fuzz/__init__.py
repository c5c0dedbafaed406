"""Fuzzing: damaged files and messages are read correctly or refused, soon and in little memory.

    make fuzz                                    # an hour, all readers, server and client
    make fuzz ARGS="--minutes 5 --only games"    # one reader

Files of every format are mutated (`mutations.py`) and read (`targets.py`) in a process whose memory
and time are limited (`driver.py`). A reader may raise nothing but OSError and a ValueError that
names the file. Server and client are attacked by mutated messages (`protocol.py`), each attack made
from a mutated seed. Inputs that fail are kept.
"""
