"""Tests of its own under the names of hidden ones.

mode: tests
"""

for name in ("test_hidden.py", "tests/test_hidden.py", "grade/tests/test_hidden.py"):
    write(name, "def test_add():\n    pass\n")
