"""File names hold newlines, control characters, other alphabets and very many letters.

mode: escape
"""

names = ["a\nb.py", "tests/test_x.py\n(test file)", "\x1b[2J.py", "ünï.py", "x" * 250, " ", "-rf", "..."]
for name in [*names, b"\xff\xfe.py".decode("utf-8", "surrogateescape")]:
    try:
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("import os; os._exit(0)")
    except (OSError, ValueError):
        pass
