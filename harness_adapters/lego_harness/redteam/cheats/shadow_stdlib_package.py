"""A package named like a module of Python patches the runner when imported.

mode: loaded
"""

for name in ("email", "xml", "wsgiref", "sched"):
    write(f"{name}/__init__.py", "import _pytest.python as p\np.Function.runtest = lambda self: None\n")
append("import sched, wsgiref")
