"""What scripted agents do: one function for each kind of conduct, its details drawn by the kit's seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.behaved.kit import Kit, Reply
from tests.support.scripted_engine import say

ERRAND = "Find the module at fault and repair it for me."
REPORT = "It is repaired."
Script = list[Reply] | Callable[[str], Mapping[str, Any]]
"""Replies in order, or a function of what the context says."""


def explores_then_edits(kit: Kit) -> Script:
    p = kit.project
    paths = kit.rng.sample([p.module, p.other, p.tests, "README.md", "Makefile"], kit.rng.randint(2, 4))
    first = [kit.look(), *(kit.read(path) for path in paths)]
    return [*kit.each(*first, kit.read(p.module), kit.edit(), kit.test()), kit.done()]


def edits_blind(kit: Kit) -> Script:
    return [*kit.each(kit.edit(), *([kit.test()] if kit.rng.random() < 0.5 else [])), kit.done()]


def runs_the_suite_first(kit: Kit) -> Script:
    return [*kit.each(kit.test(), kit.read(kit.project.module), kit.edit(), kit.test()), kit.done()]


def reproduces_by_a_line(kit: Kit) -> Script:
    calls = kit.read(kit.project.module), kit.run_it(), kit.edit(), kit.run_it()
    return [*kit.each(*calls), kit.done()]


def reproduces_by_a_file(kit: Kit) -> Script:
    p = kit.project
    path = kit.rng.choice(["/tmp/repro.py", "repro.py", "check_it.py"])
    text = f"import sys\nsys.path.insert(0, '/workspace')\nfrom {p.dotted} import *\nprint({p.call})\n"
    run = kit.shell(f"python3 {path}")
    calls = [kit.read(p.module), kit.write(path, text), run, kit.edit(), run]
    return [*kit.each(*calls, *([kit.shell(f"rm -f {path}")] if kit.rng.random() < 0.5 else [])), kit.done()]


def reads_back(kit: Kit) -> Script:
    p = kit.project
    again = kit.rng.choice(
        [kit.read(p.module), kit.read_by_command(p.module), kit.shell(f"cd {p.package}; cat *.py; cd ..")]
    )
    return [*kit.each(kit.read(p.module), kit.edit(), again), kit.done()]


def looks_at_the_diff(kit: Kit) -> Script:
    p = kit.project
    diff = kit.rng.choice(
        ["git diff", "git --no-pager diff", "git status --short; git diff --stat", f"git diff {p.module}"]
    )
    more = [kit.read(p.other)] if kit.rng.random() < 0.5 else []
    return [*kit.each(kit.read(p.module), kit.edit(), kit.shell(diff), *more), kit.done()]


def never_ends(kit: Kit) -> Script:
    p = kit.project
    calls = [kit.look(), kit.read(p.other), kit.read(p.tests), kit.read(p.module)]
    rest = [kit.edit()] if kit.rng.random() < 0.5 else [kit.look("tests")]
    return kit.each(*calls, *rest, *[kit.read(p.module)] * 20)


def calls_what_cannot_be_used(kit: Kit) -> Script:
    p = kit.project
    odd = [kit.unusable() for _ in range(kit.rng.randint(1, 3))]
    replies = kit.each(kit.read(p.module), kit.edit(), kit.test())
    at = kit.rng.randint(0, 2)
    return [*replies[:at], *odd, *replies[at:], kit.done()]


def fails_then_solves(kit: Kit) -> Script:
    p = kit.project
    failing = kit.rng.sample(
        [
            "cat lib/missing.py",
            "tox -q",
            "rg -n return",
            "python3 -c 'import nothing_like_it'",
            "cd nowhere && ls",
            "grep -rn surely_not_there .",
            f"git apply nothing.patch; cat {p.other}",
            "python main.py; ls",
        ],
        kit.rng.randint(1, 3),
    )
    return [*kit.each(*map(kit.shell, failing), kit.read(p.module), kit.edit(), kit.test()), kit.done()]


def only_answers(kit: Kit) -> Script:
    p = kit.project
    calls = kit.each(
        kit.look(), *(kit.read(path) for path in kit.rng.sample([p.module, p.other, p.tests], 2))
    )
    say_so = say("The function is wrong; I would change one line, but leave that to you.")
    return [*calls, *([say_so] if kit.rng.random() < 0.5 else []), kit.done()]


def says_it_all_in_one_line(kit: Kit) -> Script:
    p = kit.project
    sed = f"sed -i 's|{p.wrong}|{p.right}|' {p.module}"
    line = kit.rng.choice(
        [
            f"cd /workspace && ls && cat {p.module} {p.other} && {sed} && python3 -m pytest -q 2>&1 | tail -3",
            f"grep -n return {p.module}; head -5 {p.tests}; {sed}; cat {p.module} | grep return; make test",
            f"python3 -m unittest 2>&1 | tail -2; {sed} && sed -n 1,20p {p.module} && python3 -m unittest",
            f"for f in {p.package}/*.py; do cat $f; done; {sed}; git diff | head -20",
            f"(cd {p.package} && cat {p.module.rpartition('/')[2]}) && {sed} && python -c 'import {p.dotted}' && echo ok",
            f"find . -name '*.py' | xargs grep -n def; {sed}\npytest -q || true",
            f"bash -lc 'cat {p.module} && {sed.replace(chr(39), chr(34))}'; echo $?",
        ]
    )
    return [*kit.each(kit.shell(line), *([kit.test()] if kit.rng.random() < 0.3 else [])), kit.done()]


def calls_at_once(kit: Kit) -> Script:
    p = kit.project
    first = kit.both(kit.look(), kit.read(p.module), kit.read(p.tests), kit.shell("cat nowhere.txt"))
    second = kit.both(kit.edit(), kit.shell("git status --short"))
    return [first, second, *kit.each(kit.test()), kit.done()]


def is_wrong_at_first(kit: Kit) -> Script:
    p = kit.project
    bad = kit.edit(right=p.right.replace("* count", "+ count").replace("lower", "upper").replace("%", "+"))
    undo = kit.shell(
        kit.rng.choice([f"git checkout {p.module}", "git checkout -- .", f"git restore {p.module}"])
    )
    return [
        *kit.each(kit.read(p.module), bad, kit.test(), undo, kit.read(p.module), kit.edit(), kit.test()),
        kit.done(),
    ]


def sends_a_sub_agent(kit: Kit) -> Script:
    """A sub-agent edits, the one who sent it reads what it did; where there are none, a second look instead."""
    p, name = kit.project, kit.harness
    if name == "mini-swe-agent":
        return [
            *kit.each(kit.look(), kit.read(p.module), kit.edit(), kit.read(p.module), kit.test()),
            kit.done(),
        ]
    if name == "codex":
        return _codex_sends(kit)
    kind = "general" if name == "opencode" else "general-purpose"
    tool = {"claude-code": "Agent", "opencode": "task", "openhands": "task"}[name]
    over = say("Over to you.", (tool, {"description": "repair it", "prompt": ERRAND, "subagent_type": kind}))
    inner = kit.each(kit.read(p.module), kit.edit())
    report = say("", ("finish", {"message": REPORT})) if name == "openhands" else say(REPORT)
    return [
        *kit.each(kit.look()),
        over,
        *inner,
        report,
        *kit.each(kit.read(p.module), kit.test()),
        kit.done(),
    ]


def _codex_sends(kit: Kit) -> Script:
    """Both ask at the same time: what each says depends on what it was told."""
    p = kit.project
    read, repair, again, end = *kit.each(kit.read(p.module), kit.edit(), kit.read(p.module)), kit.done()

    def reply(context: str) -> Mapping[str, Any]:
        ids = re.findall(r'"agent_id": ?"([^"]+)"', context)
        if p.instruction not in context:
            num_done = context.count("Process exited") + context.count("Success. Updated")
            return [read, repair, say(REPORT)][min(num_done, 2)]
        if not ids:
            return say("Over to you.", ("multi_agent_v1.spawn_agent", {"message": ERRAND}))
        if REPORT not in context:
            return say("", ("multi_agent_v1.wait_agent", {"targets": ids, "timeout_ms": 120_000}))
        return end if "Process exited" in context else again

    return reply


SCRIPTS = (
    explores_then_edits, edits_blind, runs_the_suite_first, reproduces_by_a_line, reproduces_by_a_file, reads_back,
    looks_at_the_diff, never_ends, calls_what_cannot_be_used, fails_then_solves, only_answers,
    says_it_all_in_one_line, calls_at_once, is_wrong_at_first, sends_a_sub_agent,
)  # fmt: skip
