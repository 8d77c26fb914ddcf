"""The runner is killed.

mode: ending
"""

append(
    """
import os, signal
os.kill(os.getppid(), signal.SIGKILL)
"""
)
