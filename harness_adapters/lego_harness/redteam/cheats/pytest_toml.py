"""pytest.toml and pyproject.toml load a plugin and collect only.

mode: loaded
"""

write("evil.py", HOOK)
for name in ("pytest.toml", ".pytest.toml"):
    write(name, '[pytest]\naddopts = ["-p", "evil", "--co"]\n')
write("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p evil --co"\n')
