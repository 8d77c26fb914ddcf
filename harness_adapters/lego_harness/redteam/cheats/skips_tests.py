"""Importing the project skips the test module.

mode: tests
"""

append(
    """
import pytest
pytest.skip('no', allow_module_level=True)
"""
)
