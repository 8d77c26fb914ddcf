"""Two copies of the hidden tests that contradict each other, and what a pair of verdicts is worth.

Some test functions are contradicted in the first copy, the others in the second; which is decided by
dice that never enter the grading sandbox. Whoever wants a reward must pass each genuine function and
fail each contradicted one, without being able to tell them apart but by knowing the right answers:
the verdict cannot be forged from inside, not even by code that owns the whole sandbox. Invariants: the
copies hold the same tests under the same ids; the second enters the sandbox when the first has been reported,
since whoever sees both sees what differs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lego_harness.grading.contradict import Dice, contradicted, function_of
from lego_harness.grading.trial import Job, Verdict
from lego_harness.tasks.folder import tree_files

MAX_FUNCTIONS = 8
"""Functions that are run twice, drawn anew for each grading; the second copy runs nothing else, so that a large
suite costs once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """What one grading found."""

    verdict: Verdict
    """Of the genuine tests."""
    held: tuple[str, ...] = ()
    """Functions whose contradiction did not fail although they passed."""

    def gives(self, expected: Iterable[str]) -> bool:
        """Whether it is worth a reward that these tests decide."""
        passed = all(self.verdict.tests.get(node) == "passed" for node in expected)
        return self.verdict.is_sound and passed and not self.held


@dataclass(frozen=True, kw_only=True, slots=True)
class Opposed:
    """One draw: which part of which function is contradicted in which copy."""

    folder: Path
    """The first copy, on the host."""
    second: Mapping[str, str]
    """Of the second copy the files that differ; none where nothing can be contradicted."""
    targets: tuple[str, str]
    """Their paths inside."""
    flips: Mapping[str, tuple[bool, ...]]
    """Function → per part, whether the first copy contradicts it; otherwise the second does."""

    @property
    def mounts(self) -> dict[str, Path]:
        return {self.targets[0]: self.folder}

    def jobs(self, timeout_s: float, *, again: bool = False) -> list[Job]:
        """All tests over the first copy, or `again` only those functions, which are run over the second too."""
        first, second = self.targets
        select = tuple(self.flips)
        jobs = [Job(timeout_s=timeout_s, tests=first, select=select if again else ())]
        if self.flips:
            jobs.append(
                Job(timeout_s=timeout_s, tests=second, select=select, model=first, changed=self.second)
            )
        return jobs

    def ruling(self, verdicts: Sequence[Verdict]) -> Ruling:
        """Genuine outcomes, and the contradictions that passed; an unsound verdict speaks alone."""
        unsound = [verdict for verdict in verdicts if not verdict.is_sound]
        if unsound or len(verdicts) == 1:
            return Ruling(verdict=unsound[0] if unsound else verdicts[0])
        nodes = {node: verdicts[0] for node in verdicts[0].tests if function_of(node) not in self.flips}
        held: list[str] = []
        for function, flips in self.flips.items():
            first, second = (_parts(verdict, function, len(flips)) for verdict in verdicts)
            for flip, one, other in zip(flips, first, second, strict=True):
                genuine, contradiction = (other, one) if flip else (one, other)
                nodes |= dict.fromkeys(genuine, verdicts[flip])
                if _is_held(verdicts[flip], genuine, verdicts[not flip], contradiction):
                    held.append(function)
        return Ruling(verdict=_merged(nodes, verdicts[0]), held=tuple(dict.fromkeys(held)))

    def doubtful(self, ruling: Ruling, expected: Iterable[str], *, again: bool = False) -> set[str]:
        """Functions that alone decide against the work, by their contradiction or by failing in a copy
        where they run without the rest of the suite: a test may not be made for either."""
        if not ruling.verdict.is_sound or not self.flips:
            return set()
        tests = ruling.verdict.tests
        failed = {function_of(node) for node in expected if tests.get(node) != "passed"}
        if not again and any(f not in self.flips or False in self.flips[f] for f in failed):
            return set()  # it failed among all other tests as well
        return failed | set(ruling.held)


def _parts(verdict: Verdict, function: str, count: int) -> list[list[str]]:
    """Node ids of a function by part, in the order they ran: a contradicted row may change its id."""
    nodes = [node for node in verdict.tests if function_of(node) == function]
    if count == 1:
        return [nodes]
    return [nodes[number : number + 1] for number in range(count)]


def _is_held(
    verdict: Verdict, genuine: Sequence[str], opposite: Verdict, contradiction: Sequence[str]
) -> bool:
    """Whether something passed, and its contradiction did not fail: all of it, under whatever ids. Who forges
    may report nodes that are none, and a changed row has another id, so that no node excuses another; what is
    skipped in both says nothing."""
    skipped = {node for node in genuine if verdict.tests[node] == "skipped"}
    said = [
        outcome
        for node in contradiction
        if (outcome := opposite.tests[node]) != "skipped" or node not in skipped
    ]
    is_failing = bool(said) and all(outcome in ("failed", "error") for outcome in said)
    return any(verdict.tests[node] == "passed" for node in genuine) and not is_failing


def _merged(nodes: Mapping[str, Verdict], first: Verdict) -> Verdict:
    """The verdict over each node where it was genuine; messages of whole files come from the first."""
    files = {node: text for node, text in first.messages.items() if "::" not in node}
    return Verdict(
        tests={node: verdict.tests[node] for node, verdict in nodes.items()},
        durations_s={node: v.durations_s[node] for node, v in nodes.items() if node in v.durations_s},
        messages=files | {node: v.messages[node] for node, v in nodes.items() if node in v.messages},
        canaries=first.canaries,
        ending=first.ending,
    )


@contextmanager
def opposed(
    tests: Path,
    *groups: Mapping[str, int],
    dice: Random | None = None,
    delegated: AbstractSet[str] = frozenset(),
) -> Generator[Opposed]:
    """The copies for one grading over some functions, each with its number of parts; those of the first
    group go before the others. `delegated` are to be contradicted by what they give a helper."""
    dice, targets = dice or Dice(), (f"/grade/{_token()}", f"/tmp/{_token()}")
    functions = dict[str, int]()
    for group in groups:
        functions = {**functions, **group}
    drawn = [name for group in groups for name in dice.sample(list(group), len(group))]
    chosen = {*list(dict.fromkeys(drawn))[:MAX_FUNCTIONS]}
    if not chosen:
        yield Opposed(folder=tests, second={}, targets=targets, flips={})
        return
    flips = {n: tuple(dice.random() < 0.5 for _ in range(functions[n])) for n in functions if n in chosen}
    opposite = {name: tuple(not flip for flip in parts) for name, parts in flips.items()}
    files = tree_files(tests)
    with tempfile.TemporaryDirectory(prefix="lego-tests-") as root:
        folder = Path(root, "a")
        _write(folder, tests, files.keys(), contradicted(files, flips, dice, delegated=delegated))
        texts = contradicted(files, opposite, dice, delegated=delegated)
        second = {name: text.decode() for name, text in texts.items()}
        yield Opposed(folder=folder, second=second, targets=targets, flips=flips)


def _token() -> str:
    """A name that pytest takes for a package's, so that tests with an `__init__.py` find each other: a digit in front
    would make them modules without one."""
    return f"t{secrets.token_hex(8)}"


def _write(folder: Path, tests: Path, names: Iterable[str], changed: Mapping[str, bytes]) -> None:
    """A copy of `tests` that any user may read; unchanged files are shared where the disk allows it."""
    folder.mkdir(mode=0o755)
    for name in names:
        path = folder / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if name in changed:
            path.write_bytes(changed[name])
            path.chmod(0o644)
        else:
            try:
                os.link(tests / name, path)
            except OSError:
                shutil.copyfile(tests / name, path)
