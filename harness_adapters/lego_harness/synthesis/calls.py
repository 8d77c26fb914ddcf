"""Says which functions of a project each test calls. Runs inside a sandbox and stands alone: stdlib + pytest.

    calls.py TOOLCHAIN TESTS PACKAGE…  ─▶  {"functions": [[path, line], …], "calls": {test: [number, …]}, "installed": [package, …]}

Paths are those in the workspace, lines those of code objects, tests `file::function`, numbers places in the list of
functions. What a test's set-up and the end of it call counts for its whole file, since other tests may live on that;
calls while tests are collected count for none.
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
from types import CodeType, FrameType
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
        self._codes: dict[int, CodeType] | None = None
        """Of the test at hand, by identity: to compare code objects takes long, and leaves their file out."""
        self._found: defaultdict[str, dict[int, CodeType]] = defaultdict(dict)

    def pytest_runtest_setup(self, item: Any) -> None:
        """The test that calls come from, from here on."""
        self._file = item.nodeid.partition("::")[0]
        self._codes = self._found[self._file]

    def pytest_runtest_call(self, item: Any) -> None:
        self._codes = self._found[item.nodeid.partition("[")[0]]

    def pytest_runtest_teardown(self) -> None:
        self._codes = self._found[self._file]

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and self._codes is not None:
            self._codes[id(frame.f_code)] = frame.f_code

    def told(self) -> dict[str, Any]:
        """What was called of the workspace."""
        self._codes = None
        numbers: dict[tuple[str, int], int] = {}
        calls: dict[str, list[int]] = {}
        for test, codes in self._found.items():
            places = ((code.co_filename, code.co_firstlineno) for code in codes.values())
            ours = {(name[len(self._start) :], line) for name, line in places if name.startswith(self._start)}
            calls[test] = sorted(numbers.setdefault(place, len(numbers)) for place in sorted(ours))
        return {"functions": [*numbers], "calls": calls}


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
    told = json.dumps({**calls.told(), "installed": installed}).encode()
    while told:
        told = told[os.write(said, told) :]


if __name__ == "__main__":
    main()
