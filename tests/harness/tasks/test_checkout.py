"""An image that has the project checked out with its whole history becomes a task that shows one commit of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from lego_harness.errors import SetupError, UsageError
from lego_harness.grading.patch import graded_tree, make_patch
from lego_harness.grading.sealed import sealed_git
from lego_harness.redteam.cheat import HONEST, all_cheats
from lego_harness.redteam.run import Result, attempt
from lego_harness.sandbox import docker_engine
from lego_harness.sandbox.base import ExecResult, Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.workspace import write_files
from lego_harness.tasks.audit import audit
from lego_harness.tasks.checkout import checkout_files
from lego_harness.tasks.folder import load_task, workspace_files
from lego_harness.tasks.history_left import require_no_clones
from lego_harness.tasks.instances import instance
from lego_harness.tasks.proof import prove
from lego_harness.tasks.set_up import set_up
from lego_harness.tasks.surroundings import surrounded
from lego_harness.tasks.swebench import task_files
from lego_harness.types import Task
from tests.support.repair_task import BROKEN, FIXED, repair_task
from tests.support.sandboxes import unique_label

(SOLVES,) = (cheat for cheat in all_cheats() if cheat.name == HONEST)
STASHED = f"{FIXED}# stashed\n"
TEST = """import calc
from calc import add


def test_add():
    assert add(1, 2) == 3


def test_in_place():
    assert calc.__file__ == '/testbed/calc.py'
    assert open('/testbed/built/fast.txt').read() == 'compiled'
"""
DOCKERFILE = """FROM {base}
USER root
COPY --chown=1234 clone /testbed
RUN mkdir /testbed/built && printf compiled > /testbed/built/fast.txt && printf old > /testbed/built/calc.py \\
    && chmod 600 /testbed/built/fast.txt \\
    && echo /testbed > $(python3 -c 'import site; print(site.getsitepackages()[0])')/in_place.pth
WORKDIR /testbed
USER 1234
{more}
"""


@pytest.mark.parametrize("name", ["x\nRUN evil", "$BASE", "--platform=x", 'x/"y":1', "", "x" * 301, "naïve"])
def test_what_is_no_name_of_an_image_is_no_line_of_a_dockerfile(name: str) -> None:
    with pytest.raises(UsageError, match=r"docker_image: .*expected the name of an image"):
        checkout_files(name)


class Searched:
    """A sandbox in which a search finds these paths."""

    image = "sha256:1"

    def __init__(self, *found: str) -> None:
        self._found = "".join(f"{path}\n" for path in found)

    async def exec(self, *_: Any, **__: Any) -> ExecResult:
        """Whatever it is asked."""
        return ExecResult(exit_code=0, stdout=self._found, stderr="", timed_out=False, duration_s=0.0)


NAMED = '[environment]\ndocker_image = "x/y:1"\n'
CLONE = f"/testbed/.git/objects/ab/{'c' * 38}"
BARE = f"/a b/objects/ab/{'c' * 38}"
OF_SETUP = f"/home/agent/x/.git/objects/ab/{'c' * 38}"


@pytest.mark.parametrize(
    ("files", "found", "said"),
    [
        (
            {"task.toml": NAMED},
            (CLONE, BARE, CLONE),
            "write an environment/Dockerfile in place of docker_image, with the lines FROM x/y:1, USER root and "
            "RUN rm -rf '/a b/objects' /testbed/.git (",
        ),
        (
            {"environment/Dockerfile": "FROM x\nRUN y\n"},
            (CLONE,),
            "end environment/Dockerfile with the line RUN rm -rf /testbed/.git",
        ),
        ({"task.toml": NAMED, "environment/setup.sh": "true\n"}, (OF_SETUP,), "take the clone out"),
        ({"environment/setup.sh": "true\n"}, (OF_SETUP,), "take the clone out"),
    ],
)
async def test_the_refusal_of_a_clone_says_how_to_remove_all_of_it(
    tmp_path: Path, files: dict[str, str], found: tuple[str, ...], said: str
) -> None:
    task = repair_task(tmp_path / "t", **files)
    with pytest.raises(SetupError, match=re.escape(f"expected no git objects; {said}")):
        await require_no_clones(cast("Any", Searched(*found)), task, {})


# --- for real -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A clone at its base, in the middle of three commits, and an image with all of it."""

    clone: Path
    base: str
    fix: str
    image: str
    tree: str


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **who}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


def cloned(folder: Path) -> dict[str, str]:
    """Names of commits and trees; the fix is in a commit that only the reflog has, and in a stash."""
    (folder / "tests").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "calc.py").write_text("")
    (folder / ".gitignore").write_text("built/\n*.egg-info/\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "calc.py").write_text(BROKEN)
    (folder / "tests" / "test_calc.py").write_text("")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    git(folder, "tag", "v1.2")
    (folder / "calc.py").write_text(FIXED)
    (folder / "tests" / "test_calc.py").write_text(TEST)
    git(folder, "commit", "-qam", "the fix")
    fix = git(folder, "rev-parse", "HEAD")
    git(folder, "reset", "-q", "--hard", "v1.2")
    (folder / "calc.py").write_text(STASHED)
    git(folder, "stash", "-q")
    return {
        "fix": fix,
        "base": git(folder, "rev-parse", "HEAD"),
        "tree": git(folder, "rev-parse", "HEAD^{tree}"),
    }


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Project]]:
    """Builds the image; `more` are lines at the end of its Dockerfile."""
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    tag = f"lego/test-checkout:{uuid.uuid4().hex}"

    def build(more: str = "") -> Project:
        context = tmp_path / "image"
        names = cloned(context / "clone")
        (context / "Dockerfile").write_text(DOCKERFILE.format(base=docker_engine.default_image(), more=more))
        docker("build", "--quiet", "--network=none", "--tag", tag, str(context))
        shutil.copytree(context / "clone", tmp_path / "clones" / "calc", symlinks=True)
        return Project(clone=tmp_path / "clones" / "calc", image=tag, **names)

    yield build
    notes = (tmp_path / "cache" / "images").glob("[!.]*")
    for one in (*(f"lego/task:{note.name}" for note in notes), tag):
        subprocess.run(["docker", "rmi", "--force", one], capture_output=True)


def docker(*arguments: str) -> None:
    done = subprocess.run(["docker", *arguments], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def task_of(project: Project, folder: Path) -> Task:
    """As `lego tasks import` makes it of an instance."""
    row = {
        "instance_id": "calc-1",
        "repo": "calc",
        "base_commit": project.base,
        "problem_statement": "Repair calc.py: add must add.",
        "patch": git(project.clone, "diff", project.base, project.fix, "--", "calc.py") + "\n",
        "test_patch": git(project.clone, "diff", project.base, project.fix, "--", "tests") + "\n",
        "FAIL_TO_PASS": ["tests/test_calc.py::test_add"],
        "PASS_TO_PASS": ["tests/test_calc.py::test_in_place"],
        "docker_image": project.image,
    }
    files, _ = task_files(instance(row), project.clone.parent)
    write_files(folder, files)
    return load_task(folder)


LOOK = """cd /testbed && git rev-parse HEAD^{{tree}} && git describe --tags && git status --short
git rev-list --all --reflog --count
git for-each-ref --format='%(refname)'; git reflog; git stash list; git fsck --unreachable --no-reflogs
for name in {secrets}; do git cat-file -e $name 2>/dev/null && echo "shown $name"; done
find / -xdev \\( -name .git -o -name '*.pack' \\) 2>/dev/null
for place in $(grep -oE '(lower|upper)dir=[^,]*' /proc/mounts | tr ':=' '  '); do ls -d $place/testbed/.git 2>/dev/null; done
mkdir /tmp/m && mount -t overlay overlay -o lowerdir=/:/opt /tmp/m 2>/dev/null && echo mounted
cat built/fast.txt"""
"""Whatever is printed besides names, tree and tag of the one commit is too much."""
WORK = (
    "echo '# more' >> /testbed/calc.py && git -C /testbed -c user.name=a -c user.email=a@b commit -qam more"
)


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("root", [False, True])
async def test_the_agent_sees_one_commit_of_the_same_tree_and_its_work_without_it(
    tmp_path: Path, built: Callable[..., Project], root: bool
) -> None:
    project = built()
    task = task_of(project, tmp_path / "t")
    hidden = [
        project.fix,
        *git(project.clone, "rev-parse", f"{project.fix}:calc.py", "stash@{0}:calc.py").split(),
    ]
    files = {**workspace_files(task), **sealed_git(task.workspace)}
    spec = SandboxSpec(phase=Phase.AGENT, files=files, label=unique_label(), root=root)
    async with DockerBackend().open(await surrounded(spec, task, is_setup=True)) as sandbox:
        before = await set_up(sandbox, task, given=files, then=Phase.AGENT)
        look = ["bash", "-c", LOOK.format(secrets=" ".join(hidden))]
        seen = await sandbox.exec(look, timeout_s=60)
        worked = await sandbox.exec(["bash", "-c", WORK], timeout_s=60)
        after = await sandbox.export()
    assert seen.stdout.split() == [project.tree, "v1.2", "1", "refs/heads/main", "refs/tags/v1.2", "compiled"]
    assert worked.exit_code == 0, worked.stderr
    assert before
    assert [line for line in make_patch(before, after).splitlines() if line.startswith("+")] == [
        "+++ b/calc.py",
        "+# more",
    ]
    graded = graded_tree(before, after)
    assert graded.reverted == ()
    assert graded.files == {**before, "calc.py": before["calc.py"] + b"# more\n"}


@pytest.mark.docker
@pytest.mark.slow
async def test_its_work_is_graded_and_audited_as_that_of_any_task(
    tmp_path: Path, built: Callable[..., Project]
) -> None:
    task, backend = task_of(built(), tmp_path / "t"), DockerBackend()
    (found,) = [one async for one in audit([task], backend, repeat=1, label=unique_label())]
    assert found.faults == ()
    paid = await attempt(SOLVES, task, backend, label=unique_label())
    assert paid.result is Result.HONEST, paid.detail


FORMS = {
    "a file that points elsewhere": (
        "mv .git /elsewhere && echo 'gitdir: /elsewhere' > .git",
        "/elsewhere/objects",
    ),
    "borrowed objects": (
        "mkdir /store && mv .git/objects /store && mkdir -p .git/objects/info"
        " && echo /store/objects > .git/objects/info/alternates",
        "/store/objects",
    ),
    "a link and another clone": (
        "mkdir sub && cp -r .git sub && mv .git '/opt/a b' && ln -s '/opt/a b' .git",
        "/checkout/sub/.git '/opt/a b/objects'",
    ),
}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
async def test_whatever_else_of_git_an_image_holds_is_refused_with_the_line_that_removes_it(
    tmp_path: Path, built: Callable[..., Project], form: str
) -> None:
    arrange, places = FORMS[form]
    task = task_of(built(f"USER root\nRUN {arrange}"), tmp_path / "t")
    (proof,) = await prove([task], DockerBackend())
    assert f"end environment/Dockerfile with the line RUN rm -rf {places}" in proof.reason
