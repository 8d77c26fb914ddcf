"""False is overwritten in memory by True.

mode: memory
"""

append(
    """
import ctypes
ctypes.memmove(id(False) + 16, id(True) + 16, 16)
"""
)
