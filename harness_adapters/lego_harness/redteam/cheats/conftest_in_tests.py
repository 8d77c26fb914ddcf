"""A conftest among the tests turns every outcome into a pass.

mode: loaded
"""

write("tests/conftest.py", HOOK)
write("test/conftest.py", HOOK)
