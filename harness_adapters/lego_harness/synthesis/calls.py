"""Says which functions of a project each test file calls. Runs inside a sandbox and stands alone: stdlib + pytest.

    calls.py TOOLCHAIN TESTS PACKAGE…  ─▶  {"calls": {test file: [[path, line], …]}, "installed": [package, …]}

Paths are those in the workspace, lines those of code objects. Calls while tests are collected count for none.
`installed` are packages that the interpreter finds without the workspace: tests would run those instead.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

_PYTEST = (
    "-q",
    "-c",
    "/dev/null",
    "-p",
    "no:cacheprovider",
    "--tb=no",
    "-W",
    "ignore",
    "--continue-on-collection-errors",
)


class Calls:
    """A pytest plugin and a profiler."""

    def __init__(self, workspace: str) -> None:
        self._start = f"{workspace}/"
        self._file = ""
        self.found: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)

    def pytest_runtest_setup(self, item: Any) -> None:
        """The test that calls come from, from here on."""
        self._file = item.nodeid.partition("::")[0]

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and self._file and code.co_filename.startswith(self._start):
            self.found[self._file].add((code.co_filename[len(self._start) :], code.co_firstlineno))


def main() -> None:
    """Run all tests with every call watched, and print what was found."""
    toolchain, tests, *packages = sys.argv[1:]
    workspace, here = str(Path.cwd()), str(Path(__file__).parent)
    sys.path[:] = [toolchain, *(path for path in sys.path if path not in ("", here))]
    import pytest

    installed = [name for name in packages if importlib.util.find_spec(name) is not None]
    sys.path.append(workspace)
    calls, said = Calls(workspace), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    threading.setprofile(calls)
    sys.setprofile(calls)
    pytest.main([*_PYTEST, f"--rootdir={tests}", f"--confcutdir={tests}", tests], plugins=[calls])
    sys.setprofile(None)
    told = {file: sorted(found) for file, found in sorted(calls.found.items())}
    os.write(said, json.dumps({"calls": told, "installed": installed}).encode())


if __name__ == "__main__":
    main()
