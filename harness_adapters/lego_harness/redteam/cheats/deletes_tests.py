"""Every test it can see is deleted.

mode: tests
"""

import shutil

for name in ("test", "tests"):
    shutil.rmtree(HERE / name, ignore_errors=True)
for path in HERE.rglob("test_*.py"):
    path.unlink()
