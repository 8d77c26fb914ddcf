"""The OpenHands adapter before it is started: what it needs, and where it finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lego_harness.adapters.install import OPENHANDS
from lego_harness.adapters.pythons import UNPACKED, find_python312, unpack_python
from lego_harness.errors import SetupError
from lego_harness.registry import get_adapter

OLD = "#!/bin/sh\nexit 1\n"
NEW = "#!/bin/sh\nexit 0\n"
UNPACK = """#!/bin/sh
for folder; do :; done
/bin/mkdir -p "$folder/usr/lib/cpu" "$folder/usr/bin"
echo > "$folder/usr/bin/python3.13"
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@"\\n' > "$folder/usr/lib/cpu/ld-linux-cpu.so.2"
/bin/chmod +x "$folder/usr/lib/cpu/ld-linux-cpu.so.2"
"""
"""Stands in for mmdebstrap: a loader that prints what it was started with."""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose own interpreter is too old, with nothing on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.delenv("LEGO_PYTHON312", raising=False)
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "old" / "python", OLD)))
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_name_on_path_that_leads_nowhere_is_passed_over(host: Path) -> None:
    script(host / "bin" / "python3.12", OLD)
    script(host / "bin" / "python3.13", NEW)
    assert find_python312() == "python3.13"


def test_pyenv_s_versions_are_found_without_its_shims(host: Path) -> None:
    script(host / "pyenv/versions/3.11.7/bin/python", NEW)
    found = script(host / "pyenv/versions/3.12.1/bin/python", NEW)
    assert find_python312() == str(found)


def test_a_chosen_interpreter_is_taken_or_refused_but_never_replaced(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(host / "bin" / "python3.12", NEW)
    monkeypatch.setenv("LEGO_PYTHON312", str(script(host / "mine", NEW)))
    assert find_python312() == str(host / "mine")
    monkeypatch.setenv("LEGO_PYTHON312", str(host / "missing"))
    with pytest.raises(SetupError, match=r"LEGO_PYTHON312=.*missing: expected Python 3\.12 or newer"):
        find_python312()


def test_without_one_and_without_the_means_to_unpack_one_the_line_says_what_to_install(host: Path) -> None:
    assert find_python312() is None
    with pytest.raises(SetupError, match=r"install one .*apt-get install mmdebstrap.* or set LEGO_PYTHON312"):
        unpack_python(host / "unfinished", host / "final")


def test_an_unpacked_python_is_started_by_its_own_loader_from_where_it_ends_up(host: Path) -> None:
    script(host / "bin" / "mmdebstrap", UNPACK)
    unpack_python(host / "unfinished", host / "final")
    (host / "unfinished").rename(host / "final")
    said = subprocess.run(
        ["/bin/sh", str(host / "final" / UNPACKED), "-c", "1"], capture_output=True, text=True, check=True
    )
    there = host / "final" / "usr"
    assert said.stdout.splitlines() == [
        *("--argv0", str(there / "bin" / "python-here"), "--library-path", str(there / "lib" / "cpu")),
        *(str(there / "bin" / "python3.13"), "-c", "1"),
    ]


def test_what_stopped_the_unpacking_is_told(host: Path) -> None:
    script(host / "bin" / "mmdebstrap", "#!/bin/sh\necho E: no such suite >&2\nexit 25\n")
    with pytest.raises(SetupError, match="mmdebstrap exited with 25: E: no such suite"):
        unpack_python(host / "unfinished", host / "final")


def test_its_pins_hold_the_version_it_names_and_no_browser() -> None:
    adapter = get_adapter("openhands")
    pins = (
        Path(sys.modules["lego_harness.adapters"].__file__ or "").parent / "requirements/openhands.txt"
    ).read_text()
    lines = [line for line in pins.splitlines() if not line.startswith("#")]
    assert all("==" in line for line in lines)
    assert {f"openhands-sdk=={adapter.version}", f"openhands-tools=={adapter.version}"} <= set(lines)
    assert "browser-use" not in {line.partition("==")[0] for line in lines}
    assert adapter.version == OPENHANDS.version


def test_what_it_shows_the_sandbox_is_there_and_readable_by_anyone() -> None:
    for mount in get_adapter("openhands").mounts():
        assert mount.source.stat().st_mode & 0o444 == 0o444
        assert mount.target == f"/opt/lego/{mount.source.name}"
