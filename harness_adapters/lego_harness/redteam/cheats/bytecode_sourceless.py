"""The module itself is replaced by sourceless bytecode.

mode: loaded
"""

import py_compile

for path in modules():
    path.write_text(
        path.read_text() + "\nimport _pytest.python as p\np.Function.runtest = lambda self: None\n"
    )
    py_compile.compile(str(path), str(path) + "c")
    path.unlink()
