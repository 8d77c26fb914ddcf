"""A task gets the image, the mounts and the set-up it asks for, or is refused with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lego_harness.errors import SetupError, UsageError
from lego_harness.grading import reference
from lego_harness.redteam.cheat import HONEST, all_cheats
from lego_harness.redteam.run import Result, attempt
from lego_harness.sandbox import lazy
from lego_harness.sandbox.base import Limits, Phase, SandboxSpec
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.docker_container import described as container
from lego_harness.tasks.proof import prove
from lego_harness.tasks.surroundings import surrounded
from lego_harness.types import FindingKind, Surroundings, Task
from tests.support.repair_task import FILES, TESTS, repair_task
from tests.support.sandboxes import unique_label

PACKS = pytest.mark.skipif(
    shutil.which("mksquashfs") is None, reason="needs squashfs-tools; .ci/run installs them"
)

CHEATS = {cheat.name: cheat for cheat in all_cheats()}
DOCKERFILE = "ARG BASE\nFROM $BASE\nCOPY word /word\n"


def described(folder: Path, table: str, **files: str) -> Task:
    toml = f"{FILES['task.toml']}[environment]\n{table}"
    return repair_task(folder, **{"task.toml": toml, **files})


@pytest.mark.parametrize(
    "dockerfile",
    [
        "FROM python:3.12-slim\nWORKDIR /workspace\nCOPY repo/ /workspace/\n",
        "# nothing\nARG BASE\nfrom ${BASE}\ncopy ./repo \\\n  /workspace\n",
    ],
)
def test_a_dockerfile_that_only_brings_the_repository_asks_for_nothing(
    tmp_path: Path, dockerfile: str
) -> None:
    task = repair_task(tmp_path / "t", **{"environment/Dockerfile": dockerfile})
    assert task.surroundings == Surroundings()
    assert task.surroundings.is_plain


@pytest.mark.parametrize("more", ["RUN pip install numpy", "USER 1000", "FROM python:2.7", "COPY data /data"])
def test_any_other_dockerfile_asks_for_its_image(tmp_path: Path, more: str) -> None:
    task = repair_task(tmp_path / "t", **{"environment/Dockerfile": f"FROM python:3.12\n{more}\n"})
    assert task.surroundings == Surroundings(context=task.path / "environment")


def test_a_named_image_is_taken_as_it_is(tmp_path: Path) -> None:
    task = described(
        tmp_path / "t", 'docker_image = "x/y:1"\ncpus = 2\n', **{"environment/Dockerfile": "FROM scratch"}
    )
    assert task.surroundings == Surroundings(image="x/y:1", cpus=2.0)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('mounts = {"/opt/env" = "gone.squashfs"}', "gone.squashfs: expected a packed file"),
        ('mounts = {"/opt/env" = "/etc/passwd"}', "/etc/passwd: expected a packed file"),
        ('mounts = {"opt" = "a.squashfs"}', "expected an absolute path"),
        ("docker_image = 3", r"environment.docker_image: .*got 3"),
        ('setup_network = "perhaps"', "environment.setup_network"),
        ("cpus = -1", "environment.cpus"),
        ("cpus = nan", "environment.cpus"),
        ("memory_mb = -4", "environment.memory_mb"),
        ("memory_mb = 1.5", "environment.memory_mb"),
        ('memory = "lots"', "environment.memory: expected a number with its unit.*got 'lots'"),
        ('memory = "4096"', "environment.memory: .*megabytes as a bare number, got '4096'"),
        ("gpus = 1", "environment.gpus: sandboxes have no GPU"),
        ('tpu = {type = "v4"}', "environment.tpu: sandboxes have no TPU"),
        ('env = {KEY = "${KEY}"}', "environment.env: sandboxes are given no variables"),
        ('[verifier.env]\nKEY = "1"', "verifier.env: sandboxes are given no variables"),
        ('[solution.env]\nKEY = "1"', "solution.env: sandboxes are given no variables"),
        ('[[steps]]\nname = "one"', "steps: .*make a task of each step"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        described(tmp_path / "t", table)


def test_a_task_of_several_containers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"docker-compose\.yaml: a task has one container here"):
        repair_task(tmp_path / "t", **{"environment/docker-compose.yaml": "services: {}\n"})


@pytest.mark.parametrize(
    ("table", "limits"),
    [
        ("", Limits(output_bytes=7)),
        (
            "cpus = 2\nmemory_mb = 2048\nstorage_mb = 512\n",
            Limits(cpus=2.0, memory_mb=2048, disk_mb=512, output_bytes=7),
        ),
        ('memory = "2G"\nstorage = "768M"\n', Limits(memory_mb=2048, disk_mb=768, output_bytes=7)),
        ('memory = "1.5g"\nstorage = "1.5m"\n', Limits(memory_mb=1536, output_bytes=7)),
        ("cpus = 0.5\nmemory_mb = 1\nstorage_mb = 1\n", Limits(output_bytes=7)),
    ],
)
async def test_a_sandbox_is_as_large_as_its_task_asks_and_never_smaller_than_its_user_needs(
    tmp_path: Path, table: str, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    task = described(tmp_path / "t", table)
    assert task.surroundings.is_plain
    spec = SandboxSpec(phase=Phase.AGENT, files={}, label="x", limits=Limits(output_bytes=7))
    assert (await surrounded(spec, task)).limits == limits


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("cpus = 1000", "environment.cpus asks for 1000, this machine has"),
        ("memory_mb = 999_999_999", "environment.memory_mb asks for"),
    ],
)
async def test_a_task_that_asks_for_more_than_the_machine_has_does_not_hold(
    tmp_path: Path, table: str, said: str
) -> None:
    (proof,) = await prove([described(tmp_path / "t", table)], BubblewrapBackend())
    assert not proof.holds
    assert said in proof.reason
    found = await attempt(CHEATS[HONEST], described(tmp_path / "t", table), BubblewrapBackend(), label="x")
    assert found.reward is None
    assert said in found.detail


def test_a_container_whose_disk_is_memory_does_not_ask_for_more_than_there_is() -> None:
    spec = SandboxSpec(phase=Phase.AGENT, files={}, label="x", limits=Limits(disk_mb=2**40))
    with pytest.raises(
        SetupError, match=r"kept in memory, and this machine has \d+ MB; lower memory_mb or storage_mb"
    ):
        container(spec)


@pytest.mark.parametrize(
    "name", ["environment/Dockerfile", "environment/requirements.txt", "environment/setup.sh"]
)
def test_whatever_an_image_is_built_from_is_part_of_what_is_remembered_of_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(reference, "toolchain", lambda: Path("toolchain"))
    files = {
        "environment/Dockerfile": DOCKERFILE,
        "environment/requirements.txt": "numpy==1\n",
        name: "one\n",
    }
    one = repair_task(tmp_path / "t", **files)
    key = reference.content_key(one, BubblewrapBackend())
    assert reference.content_key(one, BubblewrapBackend()) == key
    other = repair_task(tmp_path / "t", **{**files, name: "two\n"})
    assert reference.content_key(other, BubblewrapBackend()) != key


async def test_bubblewrap_refuses_a_task_that_needs_an_image_in_one_line(
    tmp_path: Path,
) -> None:
    task = repair_task(tmp_path / "t", **{"environment/Dockerfile": DOCKERFILE})
    (proof,) = await prove([task], BubblewrapBackend())
    assert not proof.holds
    assert "needs an image of its own" in proof.reason
    assert "Docker" in proof.reason
    assert "\n" not in proof.reason
    found = await attempt(CHEATS[HONEST], task, BubblewrapBackend(), label=unique_label())
    assert (found.reward, found.result) == (None, Result.FAILED)
    assert "needs an image of its own" in found.detail


async def test_only_set_up_gets_a_network_and_only_where_the_task_wants_one(tmp_path: Path) -> None:
    wants = described(tmp_path / "t", "setup_network = true\n", **{"environment/setup.sh": "true\n"})
    idle = described(tmp_path / "u", "setup_network = true\n")
    spec = SandboxSpec(phase=Phase.AGENT, files={}, label="x")
    assert [
        (await surrounded(spec, task, is_setup=is_setup)).network
        for task, is_setup in [(wants, True), (wants, False), (idle, True)]
    ] == [True, False, False]


async def test_what_set_up_leaves_is_what_the_agent_was_given(tmp_path: Path) -> None:
    word = uuid.uuid4().hex
    tests = TESTS + f"\n\ndef test_prepared():\n    assert open('prepared').read() == '{word}'\n"
    script = f"printf {word} > prepared\n"
    task = repair_task(tmp_path / "t", **{"environment/setup.sh": script, "tests/test_hidden.py": tests})
    (proof,) = await prove([task], BubblewrapBackend())
    assert proof.holds, proof.reason
    paid = await attempt(CHEATS[HONEST], task, BubblewrapBackend(), label=unique_label())
    assert paid.result is Result.HONEST, paid.detail


async def test_test_side_files_that_set_up_leaves_are_no_change_of_the_agents(tmp_path: Path) -> None:
    """As `pip install --editable` and a build in place leave them."""
    tests = TESTS + (
        "\n\ndef test_prepared():\n    names = ['x.egg-info/PKG-INFO', 'fast.so', 'conftest.py', 'tests/data.txt']\n"
        "    assert ''.join(open(name).read() for name in names) == '#' * 4\n"
    )
    script = "mkdir x.egg-info\nfor f in x.egg-info/PKG-INFO fast.so conftest.py tests/data.txt; do printf '#' > $f; done\n"
    task = repair_task(tmp_path / "t", **{"environment/setup.sh": script, "tests/test_hidden.py": tests})
    (proof,) = await prove([task], BubblewrapBackend())
    assert proof.holds, proof.reason
    paid = await attempt(CHEATS[HONEST], task, BubblewrapBackend(), label=unique_label())
    assert paid.result is Result.HONEST, paid.detail
    kinds = {finding.kind for finding in paid.findings}
    assert not kinds & {FindingKind.TEST_EDIT, FindingKind.TAMPERING}


@pytest.mark.parametrize(
    ("script", "said"), [("echo no such thing >&2; exit 4\n", "exit code 4 and said: no such thing")]
)
async def test_a_set_up_that_fails_is_a_set_up_failure_and_no_reward(
    tmp_path: Path, script: str, said: str
) -> None:
    task = repair_task(tmp_path / "t", **{"environment/setup.sh": script})
    found = await attempt(CHEATS[HONEST], task, BubblewrapBackend(), label=unique_label())
    assert found.reward is None
    assert said in found.detail


@pytest.mark.parametrize(
    ("ignored", "is_taken"),
    [
        ({}, False),
        ({".dockerignore": "*.pyc\n"}, False),
        ({".dockerignore": "repo/.git\n"}, True),
        ({".dockerignore": "# none\n**/.git\n"}, True),
        ({".dockerignore": "**/.git\n!repo/.git/HEAD\n"}, False),
        ({".dockerignore": "**/.git\n !repo/.git/HEAD\n"}, False),
        ({".dockerignore": "# never repo/.git in here\n"}, False),
        ({".dockerignore": "# all !important\n  /repo/.git/  \n"}, True),
        ({".dockerignore": "repo\n"}, True),
        ({".dockerignore": "repo/.git", "Dockerfile.dockerignore": "*.pyc\n"}, False),
        ({".dockerignore": "repo/.git", "Dockerfile.dockerignore": "repo/.git"}, True),
        ({"Dockerfile.dockerignore": "repo/.git"}, False),
        ({".dockerignore": "repo/.git", "Dockerfile.fetch.dockerignore": ""}, False),
    ],
)
def test_no_image_is_built_from_a_projects_history(
    tmp_path: Path, ignored: dict[str, str], is_taken: bool
) -> None:
    (tmp_path / "t" / "environment" / "repo" / ".git").mkdir(parents=True)
    files = {f"environment/{name}": text for name, text in ignored.items()}
    with nullcontext() if is_taken else pytest.raises(UsageError, match=r"repo/\.git"):
        repair_task(tmp_path / "t", **{"environment/Dockerfile": DOCKERFILE, **files})


def test_an_ignore_file_without_history_to_ignore_may_say_what_it_wants(tmp_path: Path) -> None:
    files = {"environment/Dockerfile": DOCKERFILE, "environment/.dockerignore": "*\n!word\n"}
    assert repair_task(tmp_path / "t", **files).surroundings.context


# --- for real -----------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    cache = tmp_path / "cache"
    monkeypatch.setenv("LEGO_CACHE", str(cache))
    yield cache
    lazy.release(cache)
    for note in (cache / "images").glob("[!.]*"):
        subprocess.run(["docker", "rmi", "--force", f"lego/task:{note.name}"], capture_output=True)


@pytest.mark.docker
@pytest.mark.slow
@PACKS
async def test_proof_agent_and_grading_share_image_mounts_and_set_up_on_docker(
    tmp_path: Path, cache: Path
) -> None:
    word, folder = uuid.uuid4().hex, tmp_path / "t"
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "data").write_text("of the mount")
    (folder / "environment").mkdir(parents=True)
    lazy.pack(tmp_path / "packed", folder / "environment" / "env.squashfs")
    tests = TESTS + (
        f"\n\ndef test_surroundings():\n    assert open('/word').read() == '{word}'\n"
        "    assert open('/opt/env/data').read() == 'of the mount'\n    assert open('copied').read() == open('/word').read()\n"
    )
    task = described(
        folder,
        'mounts = {"/opt/env" = "env.squashfs"}\n',
        **{
            "environment/Dockerfile": DOCKERFILE,
            "environment/word": word,
            "environment/setup.sh": "cp /word copied\n",
            "tests/test_hidden.py": tests,
            "solution/solve.sh": FILES["solution/solve.sh"] + "test -s /word && test -s /opt/env/data\n",
        },
    )
    backend = DockerBackend()
    (proof,) = await prove([task], backend)
    assert proof.holds, proof.reason
    paid = await attempt(CHEATS[HONEST], task, backend, label=unique_label())
    assert paid.result is Result.HONEST, paid.detail
    unpaid = await attempt(CHEATS["nothing"], task, backend, label=unique_label())
    assert unpaid.result is Result.BLOCKED, unpaid.detail


STORE = f"ab/{'c' * 38}"


def image_task(folder: Path, dockerfile: str, **files: str) -> Task:
    """Its image gets the folder `store`, in which an object lies."""
    return repair_task(
        folder,
        **{"environment/Dockerfile": dockerfile, f"environment/store/objects/{STORE}": "the fix", **files},
    )


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("place", ["/testbed/.git", "/src", "/opt/lego/history.git"])
async def test_no_image_shows_the_agent_a_clone(tmp_path: Path, cache: Path, place: str) -> None:
    task = image_task(tmp_path / "t", f"ARG BASE\nFROM $BASE\nCOPY store {place}\n")
    (proof,) = await prove([task], DockerBackend())
    assert not proof.holds
    assert "which may hold the project's future" in proof.reason
    found = await attempt(CHEATS[HONEST], task, DockerBackend(), label=unique_label())
    assert found.reward is None
    assert f"objects/{STORE}" in found.detail
    assert not (cache / "searched").exists()


@pytest.mark.docker
@pytest.mark.slow
async def test_an_image_without_a_clone_is_searched_once(tmp_path: Path, cache: Path) -> None:
    closed = "ARG BASE\nFROM $BASE\nCOPY store /root/store\nRUN chmod 700 /root\n"
    task = image_task(tmp_path / "t", closed)
    (proof,) = await prove([task], DockerBackend())
    assert proof.holds, proof.reason
    (note,) = (cache / "searched").iterdir()
    before = note.stat().st_mtime_ns
    paid = await attempt(CHEATS[HONEST], task, DockerBackend(), label=unique_label())
    assert paid.result is Result.HONEST, paid.detail
    assert note.stat().st_mtime_ns == before


@pytest.mark.docker
@pytest.mark.slow
async def test_of_an_image_that_is_known_what_a_set_up_leaves_is_searched(
    tmp_path: Path, cache: Path
) -> None:
    """In a volume, since all else that it can write is lost or exported."""
    volume = f'ARG BASE\nFROM $BASE\nRUN echo {uuid.uuid4().hex} > /new\nVOLUME ["/workspace/my data"]\n'
    leaves = f"cd '/workspace/my data' && mkdir -p objects/ab && echo fix > objects/{STORE}\n"
    task = image_task(tmp_path / "t", volume, **{"environment/setup.sh": "true\n"})
    (proof,) = await prove([task], DockerBackend())
    assert proof.holds, proof.reason
    (note,) = (cache / "searched").iterdir()
    for script in (leaves, f"{leaves}rm -r objects\n"):
        (task.path / "environment" / "setup.sh").write_text(script)
        (proof,) = await prove([task], DockerBackend())
        assert proof.holds == ("rm" in script), proof.reason
        assert ("brings /workspace/my data/objects/" in proof.reason) != proof.holds
    assert list((cache / "searched").iterdir()) == [note]


@pytest.mark.docker
@pytest.mark.slow
async def test_a_projects_fixtures_may_lie_in_its_image(tmp_path: Path, cache: Path) -> None:
    fixture = {f"environment/repo/data/a.git/objects/{STORE}": "of a test"}
    task = image_task(tmp_path / "t", "ARG BASE\nFROM $BASE\nCOPY repo /src\n", **fixture)
    (proof,) = await prove([task], DockerBackend())
    assert proof.holds, proof.reason
    assert not (cache / "searched").exists()


@pytest.mark.docker
@pytest.mark.slow
@PACKS
async def test_no_mount_shows_the_agent_a_clone(tmp_path: Path, cache: Path) -> None:
    folder, store = tmp_path / "t", tmp_path / "packed" / "store" / "objects" / STORE
    store.parent.mkdir(parents=True)
    store.write_text("the fix")
    (folder / "environment").mkdir(parents=True)
    lazy.pack(tmp_path / "packed", folder / "environment" / "env.squashfs")
    (proof,) = await prove([described(folder, 'mounts = {"/opt/env" = "env.squashfs"}\n')], DockerBackend())
    assert not proof.holds
    assert f"env.squashfs: brings /opt/env/store/objects/{STORE}" in proof.reason
