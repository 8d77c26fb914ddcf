"""Bytecode that never looks at its source carries a patch of the runner.

mode: loaded
"""

import importlib.util
import py_compile

for path in modules():
    poisoned = HERE / "poisoned.py"
    poisoned.write_text(
        path.read_text() + "\nimport _pytest.python as p\np.Function.runtest = lambda self: None\n"
    )
    target = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(poisoned), target, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    poisoned.unlink()
