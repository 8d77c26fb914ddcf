"""The OpenHands adapter before it is started: what it needs, and where it finds it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lego_harness.adapters.install import OPENHANDS
from lego_harness.adapters.pythons import python312
from lego_harness.errors import SetupError
from lego_harness.registry import get_adapter

OLD = "#!/bin/sh\nexit 1\n"
NEW = "#!/bin/sh\nexit 0\n"


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
    assert python312() == "python3.13"


def test_pyenv_s_versions_are_found_without_its_shims(host: Path) -> None:
    script(host / "pyenv/versions/3.11.7/bin/python", NEW)
    found = script(host / "pyenv/versions/3.12.1/bin/python", NEW)
    assert python312() == str(found)


def test_a_chosen_interpreter_is_taken_or_refused_but_never_replaced(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(host / "bin" / "python3.12", NEW)
    monkeypatch.setenv("LEGO_PYTHON312", str(script(host / "mine", NEW)))
    assert python312() == str(host / "mine")
    monkeypatch.setenv("LEGO_PYTHON312", str(host / "missing"))
    with pytest.raises(SetupError, match=r"LEGO_PYTHON312=.*missing: expected Python 3\.12 or newer"):
        python312()


def test_without_one_the_line_says_what_to_install(host: Path) -> None:
    with pytest.raises(SetupError, match=r"no Python 3\.12 .*install one .* or set LEGO_PYTHON312"):
        python312()


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
