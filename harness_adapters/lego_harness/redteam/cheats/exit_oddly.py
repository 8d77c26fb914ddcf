"""The process ends as the runner's does on import.

mode: ending
"""

append(
    """
import os; os._exit(93)
"""
)
