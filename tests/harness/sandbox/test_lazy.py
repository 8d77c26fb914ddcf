"""Environments mounted from one compressed file: nothing is read that is not used, nothing can be written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lego_harness.errors import SetupError
from lego_harness.sandbox import lazy
from lego_harness.sandbox.base import SandboxSpec
from lego_harness.sandbox.docker import DockerBackend

Spec = Callable[..., SandboxSpec]
MIB = 2**20


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    lazy.release(tmp_path / "cache")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """32 MiB that do not compress, a small module and a set-user-id program."""
    folder = tmp_path / "environment"
    folder.mkdir(mode=0o755)
    for number in range(8):
        (folder / f"data{number}").write_bytes(os.urandom(4 * MIB))
    (folder / "answer.py").write_text("ANSWER = 42\n")
    shutil.copy("/usr/bin/id", folder / "id")
    (folder / "id").chmod(0o4755)
    return folder


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["squashfs", "erofs"])
async def test_only_what_is_read_is_moved_and_nothing_can_be_written(
    suffix: str, environment: Path, cache: Path, tmp_path: Path, spec: Spec
) -> None:
    builder = {"squashfs": "mksquashfs", "erofs": "mkfs.erofs"}[suffix]
    file = tmp_path / f"env.{suffix}"
    if shutil.which(builder) is None:
        with pytest.raises(SetupError, match=f"no {builder} on PATH; is .* installed"):
            lazy.pack(environment, file)
        return
    lazy.pack(environment, file)
    mount = lazy.mounted(file, "/opt/env", cache=cache)
    assert lazy.mounted(file, "/opt/env", cache=cache) == mount
    script = "import sys; sys.path.append('/opt/env'); import answer; print(answer.ANSWER)"
    async with DockerBackend().open(spec(mounts=(mount,), root=True)) as sandbox:
        result = await sandbox.exec(["python3", "-c", script], timeout_s=30)
        assert result.stdout == "42\n", result.stderr
        assert 0 <= lazy.moved_bytes(mount) < 8 * MIB
        undo = "echo x > /opt/env/answer.py; mount -o remount,rw /opt/env; umount /opt/env; cat /opt/env/answer.py"
        result = await sandbox.exec(["sh", "-c", undo], timeout_s=30)
        assert result.stdout == "ANSWER = 42\n"
        await sandbox.exec(["sh", "-c", "cat /opt/env/data*"], timeout_s=60)
        assert lazy.moved_bytes(mount) >= 32 * MIB
        assert lazy.release(cache) == [mount.source]
        assert (await sandbox.exec(["cat", "/opt/env/answer.py"], timeout_s=30)).stdout == "ANSWER = 42\n"
    mount = lazy.mounted(file, "/opt/env", cache=cache)
    async with DockerBackend().open(spec(mounts=(mount,))) as sandbox:
        assert (await sandbox.exec(["/opt/env/id", "-u"], timeout_s=30)).stdout == "1000\n"
    assert lazy.release(cache) == [mount.source]


def test_what_is_no_packed_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="expected a packed file, got none"):
        lazy.mounted(tmp_path / "none.squashfs", "/opt/env", cache=tmp_path)
    with pytest.raises(SetupError, match=r"ends in \.squashfs or \.erofs"):
        lazy.pack(tmp_path, tmp_path / "env.zip")
