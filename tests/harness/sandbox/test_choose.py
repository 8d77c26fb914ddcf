"""Which backend serves, and in which words none does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lego_harness.errors import SetupError, UsageError
from lego_harness.sandbox import docker_engine
from lego_harness.sandbox.choose import choose_backend

NOBODY = 65534
PROBE = """
import asyncio
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.bubblewrap import BubblewrapBackend

async def main():
    backend = BubblewrapBackend()
    await backend.check()
    async with backend.open(SandboxSpec(phase=Phase.SETUP, files={"a": b"1\\n"}, label="nobody")) as sandbox:
        script = "id -u; whoami; cat a; chmod 000 a; unshare -Ur true; kill -9 1; grep -c CapEff:.0000000000000000 /proc/self/status"
        result = await sandbox.exec(["bash", "-c", script], timeout_s=20)
        print(result.stdout.split(), await sandbox.export())
        script = "head -c 6 /proc/1/fd/0; echo told > /proc/1/fd/1; cat; echo done; exit 3"
        result = await sandbox.exec(["bash", "-c", script], timeout_s=20, stdin=b"secret")
        print(result.stdout.split(), result.exit_code)

asyncio.run(main())
"""


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


def test_an_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'podman': expected one of auto, docker, gvisor, bubblewrap"):
        choose_backend("podman")


@pytest.mark.usefixtures("no_engine")
def test_auto_takes_bubblewrap_where_no_engine_answers() -> None:
    assert choose_backend("auto").name == "bubblewrap"


@pytest.mark.docker
@pytest.mark.slow
def test_auto_takes_docker_where_an_engine_runs_containers() -> None:
    assert choose_backend("auto").name == "docker"


@pytest.mark.usefixtures("no_engine")
async def test_a_named_docker_without_an_engine_says_what_to_do() -> None:
    with pytest.raises(SetupError, match=r"no engine runs containers .*docker_engine\.sh up"):
        await choose_backend("docker").check()


@pytest.mark.usefixtures("no_engine")
async def test_without_bubblewrap_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"no sandbox backend: .*bwrap.*apt-get install bubblewrap"):
        choose_backend("auto")
    with pytest.raises(SetupError, match=r"need bwrap.*apt-get install bubblewrap"):
        await choose_backend("bubblewrap").check()


def test_an_unprivileged_user_gets_the_same_sandboxes(tmp_path: Path) -> None:
    """As root the suite runs the privileged way; this is the other one."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("the whole suite runs unprivileged already, or there is no system Python to run it with")
    source = Path(docker_engine.__file__).parents[1]
    shared = Path("/var/tmp") / f"lego-test-{os.getpid()}"
    try:
        shutil.copytree(source, shared / "lego_harness", ignore=shutil.ignore_patterns("__pycache__"))
        shared.chmod(0o755)
        (shared / "tmp").mkdir(mode=0o777)
        (shared / "tmp").chmod(0o777)
        done = subprocess.run(
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", python, "-c", PROBE],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(shared), "TMPDIR": str(shared / "tmp")},
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
    finally:
        shutil.rmtree(shared)
    first, second = done.stdout.splitlines() or ("", done.stderr)
    assert first == "['1000', 'agent', '1', '1'] {'a': b'1\\n'}", done.stderr
    assert second == "['secretdone'] 3", "process 1 has the uid of what runs, and must not hold its streams"
