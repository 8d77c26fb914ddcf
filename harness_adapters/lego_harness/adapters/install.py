"""Where the pinned harness programs are installed, and how they get there.

`python -m lego_harness.adapters.install mini-swe-agent claude-code` installs into
`${LEGO_CACHE:-~/.cache/lego-rl}/harnesses/NAME-VERSION`. Invariant: that folder exists only when the
installation is complete (it is made next to it, then renamed), and two installers wait for each other. Changes
nothing in the programs. Versions are pinned because a harness's wire format changes with them.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lego_harness.adapters.pythons import UNPACKED, find_python312, unpack_python
from lego_harness.cache import cache_folder
from lego_harness.errors import LegoError, SetupError
from lego_harness.text import one_line

_REQUIREMENTS = Path(__file__).parent / "requirements"
_PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Harness:
    """A pinned harness program."""

    name: str
    version: str
    build: Callable[[Harness, Path], None]
    """Installs into an empty folder; raises SetupError."""

    @property
    def folder(self) -> Path:
        """Where it is, or would be, installed."""
        return _root() / f"{self.name}-{self.version}"

    def require(self) -> None:
        """Raise SetupError where it is not installed."""
        if not self.folder.is_dir():
            raise SetupError(
                f"{self.name} {self.version} is not in {self.folder.parent}; {self.how_to_install}"
            )

    @property
    def how_to_install(self) -> str:
        return f"run: {sys.executable} -m lego_harness.adapters.install {self.name}"


def pinned(name: str) -> Harness | None:
    """The harness of that name, or None if there is nothing to install (`command`)."""
    return _HARNESSES.get(name)


def install(harness: Harness) -> bool:
    """Install a harness that is not there yet; returns whether anything was done. Raises SetupError."""
    with _locked(harness):
        if harness.folder.is_dir():
            return False
        for killed in _root().glob(f".{harness.folder.name}-*"):  # of an installer that held this lock
            shutil.rmtree(killed)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{harness.folder.name}-", dir=_root()))
        try:
            harness.build(harness, unfinished)
            _correct_scripts(unfinished, harness.folder)
            unfinished.chmod(0o755)
            unfinished.rename(harness.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return True


def reported_version(argv: Sequence[str], harness: Harness, env: Mapping[str, str]) -> None:
    """Check that the program itself reports the pinned version; raises SetupError."""
    harness.require()
    with tempfile.TemporaryDirectory(prefix="lego-version-") as home:
        env = {**env, "HOME": home, "TMPDIR": home}
        said = _run(argv, f"{harness.name} does not start", env=env)
    if harness.version not in said.split():
        raise SetupError(
            f"{harness.folder} holds {harness.name} {one_line(said, limit=60)!r}, expected {harness.version}; "
            f"remove it and {harness.how_to_install}"
        )


def _root() -> Path:
    return cache_folder() / "harnesses"


@contextmanager
def _locked(harness: Harness) -> Generator[None]:
    try:
        _root().mkdir(parents=True, exist_ok=True)
        file = (_root() / f".{harness.name}.lock").open("w")
    except OSError as error:
        raise SetupError(
            f"{_root()}: harnesses cannot be installed there: {error}; set LEGO_CACHE"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _venv(python: Callable[[], str], *flags: str, compiled_by: str = "") -> Callable[[Harness, Path], None]:
    """Builds a venv of `python` from the harness's pins. With the flag --no-compile only what `compiled_by`, a fork
    server, loads is compiled, about a third."""

    def build(harness: Harness, folder: Path) -> None:
        lock = _REQUIREMENTS / f"{harness.name}.txt"
        inside = str(folder / "bin" / "python")
        is_ours = importlib.util.find_spec("pip") is not None  # it serves, and saves making another one
        pip = [sys.executable, "-m", "pip", "--python", inside] if is_ours else [inside, "-m", "pip"]
        _run(
            [python(), "-m", "venv", *(["--without-pip"] if is_ours else []), str(folder)],
            "no venv can be made; on Debian install python3-venv",
        )
        _run(
            [*pip, "--quiet", "--disable-pip-version-check", "install", *flags, "-r", str(lock)],
            f"{harness.name} cannot be installed with pip; is the package index reachable?",
        )
        if compiled_by:
            load = (
                f"import sys; sys.path.append({str(_PROGRAMS)!r}); import {compiled_by}; {compiled_by}.load()"
            )
            env = {"PATH": os.defpath, "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            _run([inside, "-c", load], f"{harness.name} cannot be imported", env=env)

    return build


def _npm(package: str, *others: str) -> Callable[[Harness, Path], None]:
    """Builds from the npm package of that name, whose native binary is used as unpacked. `others` are pinned
    packages with what it would otherwise download when it runs. `{arch}` in a name is this machine's."""

    def build(harness: Harness, folder: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise SetupError(
                f"{harness.name} needs npm on PATH to be installed; on Debian: apt-get install npm"
            )
        # By exact version: npm takes an older one silently where node is older than the newest wants.
        # Without scripts: all they would do is to copy the binary.
        arch = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
        pinned, *more = (name.format(arch=arch) for name in (f"{package}@{harness.version}", *others))
        flags = ["--loglevel=error", "--no-audit", "--no-fund", "--save-exact", "--ignore-scripts"]
        command = [npm, "install", *flags, "--prefix", str(folder), pinned, *more]
        _run(command, f"npm cannot install {pinned}", keep="start")  # npm ends with advice

    return build


def _run(
    argv: Sequence[str],
    complaint: str,
    env: Mapping[str, str] | None = None,
    *,
    keep: Literal["start", "end"] = "end",
) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, errors="replace", env=env, timeout=1800)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{complaint}: {one_line(str(error))}") from error
    if result.returncode != 0:
        said = one_line(result.stderr or result.stdout, keep=keep)
        raise SetupError(f"{complaint}: {Path(argv[0]).name} exited with {result.returncode}: {said}")
    return result.stdout


def _correct_scripts(unfinished: Path, final: Path) -> None:
    """Scripts of a venv contain the folder they were made in; make them name the one they end up in."""
    for script in unfinished.glob("bin/*"):
        if script.is_file() and not script.is_symlink():
            text = script.read_bytes()
            script.write_bytes(text.replace(os.fsencode(unfinished), os.fsencode(final)))


def _python312() -> str:
    """One that is there, or one of our own."""
    if found := find_python312():
        return found
    install(_PYTHON)
    return str(_PYTHON.folder / UNPACKED)


_PYTHON = Harness(
    name="python", version="3.13", build=lambda python, folder: unpack_python(folder, python.folder)
)
MINI_SWE = Harness(name="mini-swe-agent", version="2.4.6", build=_venv(lambda: sys.executable))
CLAUDE_CODE = Harness(name="claude-code", version="2.1.332", build=_npm("@anthropic-ai/claude-code"))
OPENCODE = Harness(
    name="opencode",
    version="1.18.33",
    # Two of the platform's own packages: `opencode-ai` would bring its binary twice.
    build=_npm("opencode-linux-{arch}", "@vscode/ripgrep-linux-{arch}@1.18.0"),
)
CODEX = Harness(name="codex", version="0.171.0", build=_npm("@openai/codex"))
OPENHANDS = Harness(
    name="openhands",
    version="1.58.2",
    build=_venv(
        _python312,
        *("--no-deps", "--no-compile", "--only-binary=:all:"),
        compiled_by="openhands_fork_server",
    ),
)
_HARNESSES = {harness.name: harness for harness in (MINI_SWE, CLAUDE_CODE, OPENCODE, CODEX, OPENHANDS)}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 installed, 2 usage, 3 could not be installed."""
    parser = argparse.ArgumentParser(prog="python -m lego_harness.adapters.install", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=sorted(_HARNESSES), metavar="NAME", help=", ".join(_HARNESSES)
    )
    for name in parser.parse_args(argv).names:
        harness = _HARNESSES[name]
        try:
            done = install(harness)
        except LegoError as error:
            print(f"lego: {error}", file=sys.stderr)  # noqa: T201 (this is the program's own output)
            return error.exit_code
        print(f"{name} {harness.version}: {'installed' if done else 'already'} in {harness.folder}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
