"""The code of Function.runtest is replaced in place.

mode: memory
"""

append(
    """
import _pytest.python as p
p.Function.runtest.__code__ = (lambda self: None).__code__
"""
)
