"""The runner is stopped.

mode: ending
"""

append(
    """
import os, signal
os.kill(os.getppid(), signal.SIGSTOP)
"""
)
