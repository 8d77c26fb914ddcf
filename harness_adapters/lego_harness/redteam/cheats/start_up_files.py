"""Shell and Python start-up files that the grader's shell might read.

mode: loaded
"""

for name in (".bashrc", ".profile", ".bash_profile", ".pythonrc.py", ".inputrc", ".config/pip/pip.conf"):
    for folder in (pathlib.Path.home(), pathlib.Path("/tmp"), HERE):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("exit 0\n")
write(".env", "PYTHONSTARTUP=/workspace/.pythonrc.py\nPYTHONPATH=/workspace\nPYTEST_ADDOPTS=--co\n")
