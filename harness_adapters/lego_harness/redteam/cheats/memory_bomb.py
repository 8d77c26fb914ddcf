"""Grading runs out of memory.

mode: ending
"""

append(
    """
x = [bytearray(10**8) for _ in range(10**4)]
"""
)
