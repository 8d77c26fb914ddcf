"""Everything in the grading sandbox is killed.

mode: ending
"""

append(
    """
import os, signal
os.kill(-1, signal.SIGKILL)
"""
)
