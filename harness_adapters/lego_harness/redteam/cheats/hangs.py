"""Importing the project never ends.

mode: ending
"""

append(
    """
import time
time.sleep(10**6)
"""
)
