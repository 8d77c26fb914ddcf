"""SystemExit and pytest.exit on import.

mode: ending
"""

append(
    """
import pytest, sys
try:
    pytest.exit('done', 0)
finally:
    raise SystemExit(0)
"""
)
