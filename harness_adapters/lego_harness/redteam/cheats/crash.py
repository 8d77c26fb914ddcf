"""The interpreter crashes on import.

mode: ending
"""

append(
    """
import ctypes
ctypes.string_at(0)
"""
)
