"""The process ends well on import.

mode: ending
"""

append(
    """
import os; os._exit(0)
"""
)
