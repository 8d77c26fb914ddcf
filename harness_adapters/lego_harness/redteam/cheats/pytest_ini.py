"""pytest.ini loads a plugin from the workspace.

mode: loaded
"""

write("evil.py", HOOK)
for name in ("pytest.ini", ".pytest.ini"):
    write(name, "[pytest]\naddopts = -p evil\npythonpath = .\n")
