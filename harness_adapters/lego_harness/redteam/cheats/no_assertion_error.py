"""AssertionError is replaced, so that nothing knows it.

mode: memory
"""

append(
    """
import builtins
builtins.AssertionError = type('E', (Exception,), {})
"""
)
