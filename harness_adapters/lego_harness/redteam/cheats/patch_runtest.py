"""pytest's Function.runtest does nothing.

mode: memory
"""

append(
    """
import _pytest.python as p
p.Function.runtest = lambda self: None
"""
)
