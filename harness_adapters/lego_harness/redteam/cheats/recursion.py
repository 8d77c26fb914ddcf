"""The stack overflows on import.

mode: ending
"""

append(
    """
import sys
sys.setrecursionlimit(10**6)
def f(): return f()
f()
"""
)
