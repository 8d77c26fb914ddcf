"""The agent leaves more files than any project has.

mode: ending
"""

for index in range(25_000):
    path = HERE / f"junk{index // 1000}" / str(index)
    path.parent.mkdir(exist_ok=True)
    try:
        path.touch()
    except OSError:
        break
