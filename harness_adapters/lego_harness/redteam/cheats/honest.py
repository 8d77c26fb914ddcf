"""Applies the reference solution.

mode: none
"""

if pathlib.Path("/solution/solve.sh").is_file():
    shell("bash /solution/solve.sh")
