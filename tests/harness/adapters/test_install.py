"""Installing pinned harnesses: whole or not at all, once, and a clear line where it cannot be."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, MINI_SWE, Harness, install, main
from lego_harness.errors import SetupError, UsageError
from lego_harness.registry import get_adapter

VERSION_PROGRAM = "#!/bin/sh\necho '{version} (Claude Code)'\n"
NPM = """#!/bin/sh
echo "$@" >> {log}
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules" && echo ok > "$2/node_modules/marker"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harnesses"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in npm on PATH; returns the file that its calls are logged in."""
    log = tmp_path / "npm.log"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    write_program(tmp_path / "bin" / "npm", NPM.format(log=log))
    return log


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_an_installation_is_pinned_and_done_once(
    cache: Path, npm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claude-code"]) == 0
    assert main(["claude-code"]) == 0
    assert visible(cache) == [f"claude-code-{CLAUDE_CODE.version}"]
    assert (CLAUDE_CODE.folder / "node_modules" / "marker").read_text() == "ok\n"
    (call,) = npm.read_text().splitlines()
    assert call.endswith(f"@anthropic-ai/claude-code@{CLAUDE_CODE.version}")
    first, second = capsys.readouterr().out.splitlines()
    assert ": installed in " in first
    assert ": already in " in second


def test_two_installers_at_once_install_once(cache: Path) -> None:
    builds: list[Path] = []
    both_started = threading.Barrier(2)

    def build(harness: Harness, folder: Path) -> None:
        builds.append(folder)

    def installer() -> None:
        both_started.wait()
        results.append(install(Harness(name="toy", version="1", build=build)))

    results: list[bool] = []
    threads = [threading.Thread(target=installer) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, True]
    assert len(builds) == 1


def test_a_failed_installation_leaves_nothing_and_says_what_failed(
    cache: Path, tmp_path: Path, npm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(tmp_path / "bin" / "npm", "#!/bin/sh\necho 'E404\nno such package' >&2\nexit 1\n")
    assert main(["claude-code"]) == 3
    assert visible(cache) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert "npm exited with 1: E404 no such package" in line


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_what_npm_itself_says_is_in_the_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"registry": "http://127.0.0.1:9", "fetch_retries": "0", "cache": str(tmp_path / "npm")}
    for name, value in settings.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    assert main(["claude-code"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "npm exited with 1: npm error code ECONNREFUSED" in line


def test_what_a_killed_installer_left_is_removed_by_the_next(cache: Path, npm: Path) -> None:
    left = cache / f".claude-code-{CLAUDE_CODE.version}-abc" / "node_modules"
    left.mkdir(parents=True)
    assert main(["claude-code"]) == 0
    assert visible(cache) == [f"claude-code-{CLAUDE_CODE.version}"]


def test_without_npm_the_line_says_how_to_get_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["claude-code"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs npm on PATH" in line
    assert visible(cache) == []


def test_a_cache_that_cannot_be_written_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "file"))
    assert main(["claude-code"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "set LEGO_CACHE" in line


def test_scripts_name_the_folder_they_end_up_in(cache: Path) -> None:
    def build(harness: Harness, folder: Path) -> None:
        write_program(folder / "bin" / "tool", f"#!{folder}/bin/python\n")

    toy = Harness(name="toy", version="1", build=build)
    install(toy)
    assert (toy.folder / "bin" / "tool").read_text() == f"#!{toy.folder}/bin/python\n"


@pytest.mark.parametrize("name", ["mini-swe-agent", "claude-code"])
async def test_a_missing_harness_is_named_with_the_command_that_installs_it(cache: Path, name: str) -> None:
    with pytest.raises(SetupError, match=rf"-m lego_harness\.adapters\.install {name}"):
        await get_adapter(name).check()


async def test_a_program_that_reports_another_version_is_refused(cache: Path) -> None:
    binary = CLAUDE_CODE.folder / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    write_program(binary, VERSION_PROGRAM.format(version="2.1.197"))
    with pytest.raises(SetupError, match=r"holds claude-code '2\.1\.197 .*expected 2\.1\.332"):
        await get_adapter("claude-code").check()
    write_program(binary, VERSION_PROGRAM.format(version=CLAUDE_CODE.version))
    await get_adapter("claude-code").check()


async def test_a_program_that_does_not_start_is_one_clear_line(cache: Path) -> None:
    write_program(
        MINI_SWE.folder / "bin" / "python", "#!/bin/sh\necho 'no module\nminisweagent' >&2; exit 1\n"
    )
    with pytest.raises(SetupError, match="does not start: python exited with 1: no module minisweagent"):
        await get_adapter("mini-swe-agent").check()


async def test_an_installation_without_its_binary_is_refused(cache: Path) -> None:
    CLAUDE_CODE.folder.mkdir(parents=True)
    with pytest.raises(SetupError, match="found 0 native binaries"):
        await get_adapter("claude-code").check()


def test_an_unknown_harness_is_refused_with_the_known_names() -> None:
    with pytest.raises(UsageError, match="'aider' is unknown; expected one of: mini-swe-agent, claude-code"):
        get_adapter("aider")
