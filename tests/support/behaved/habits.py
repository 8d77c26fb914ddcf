"""What other scripted agents do: kinds of conduct that `scripts.py` has not, for a second set of trajectories.

Written from the definitions and from what agents are known to do, without regard to how the metrics read; a detail
is drawn by the kit's seed from `phrases.py` or `slips.py`. Plain steps between are the kit's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.support.behaved import phrases
from tests.support.behaved.kit import Asked, Kit
from tests.support.behaved.scripts import ERRAND, REPORT, Script
from tests.support.behaved.slips import last_words, odd_call, slip
from tests.support.behaved.tools import aside_by_tool, edit_by_tool, read_by_tool, session
from tests.support.scripted_engine import say


def _some(kit: Kit, commands: list[str], least: int, most: int) -> list[Asked]:
    return [kit.shell(x) for x in kit.rng.sample(commands, kit.rng.randint(least, most))]


def _read(kit: Kit, path: str = "") -> Asked:
    path = path or kit.project.module
    return kit.shell(kit.rng.choice(phrases.reads(path))) if kit.rng.random() < 0.6 else kit.read(path)


def _edit(kit: Kit) -> Asked:
    return _some(kit, phrases.edits(kit.project), 1, 1)[0] if kit.rng.random() < 0.6 else kit.edit()


def _test(kit: Kit) -> Asked:
    return _some(kit, phrases.suite_runs(kit.project), 1, 1)[0]


def _maybe(kit: Kit, *calls: Asked) -> list[Asked]:
    return list(calls) if kit.rng.random() < 0.5 else []


def _all(kit: Kit, *calls: Asked) -> Script:
    return [*kit.each(*calls), *last_words(kit)]


def reads_by_other_programs(kit: Kit) -> Script:
    p = kit.project
    paths = kit.rng.sample([p.module, p.other, p.tests, "README.md", *p.beside], 3)
    looks = [kit.shell(kit.rng.choice(phrases.reads(x))) for x in paths]
    return _all(kit, *looks, _read(kit), kit.edit(), *_maybe(kit, _read(kit)))


def reads_many_at_once(kit: Kit) -> Script:
    return _all(kit, *_some(kit, phrases.read_many(kit.project), 2, 4), _edit(kit), *_maybe(kit, _test(kit)))


def edits_by_programs(kit: Kit) -> Script:
    again = kit.shell(kit.rng.choice(phrases.reads(kit.project.module)))
    edit = kit.shell(kit.rng.choice(phrases.edits(kit.project)))
    return _all(kit, kit.read(kit.project.module), edit, *_maybe(kit, again), *_maybe(kit, _test(kit)))


def edits_by_programs_at_once(kit: Kit) -> Script:
    """Without a look beforehand."""
    edit = kit.shell(kit.rng.choice(phrases.edits(kit.project)))
    return _all(kit, edit, *_maybe(kit, _read(kit)), *_some(kit, phrases.no_suite_runs(kit.project), 0, 1))


def tests_by_other_runners(kit: Kit) -> Script:
    first = _some(kit, phrases.suite_runs(kit.project), 0, 1)
    return _all(kit, *first, _read(kit), kit.edit(), *_some(kit, phrases.suite_runs(kit.project), 1, 3))


def speaks_of_tests(kit: Kit) -> Script:
    talk = _some(kit, phrases.no_suite_runs(kit.project), 2, 4)
    at = kit.rng.randint(0, 2)
    return _all(kit, *talk[:at], _read(kit), _edit(kit), *talk[at:])


def fails_openly_or_not(kit: Kit) -> Script:
    failing = _some(kit, phrases.failures(kit.project), 3, 5)
    at = kit.rng.randint(1, 3)
    return _all(kit, *failing[:at], kit.read(kit.project.module), kit.edit(), *failing[at:])


def tries_in_other_ways(kit: Kit) -> Script:
    tries = _some(kit, phrases.programs(kit.project), 1, 3)
    before = tries if kit.rng.random() < 0.7 else []
    after = [] if before else tries
    return _all(kit, *_maybe(kit, _read(kit)), *before, _edit(kit), *after, *_maybe(kit, _test(kit)))


def does_more_than_asked(kit: Kit) -> Script:
    p = kit.project
    asides = _some(kit, phrases.asides(), 2, 4)
    at = kit.rng.randint(0, 2)
    return _all(
        kit, *asides[:at], kit.read(p.module), kit.read(p.other), _edit(kit), *asides[at:], _test(kit)
    )


def plans_with_tools(kit: Kit) -> Script:
    plan, more = aside_by_tool(kit), aside_by_tool(kit)
    return _all(kit, plan, _read(kit), *_maybe(kit, more), _edit(kit), *_maybe(kit, _test(kit)), more)


def slips_and_goes_on(kit: Kit) -> Script:
    p = kit.project
    odd = [slip(kit) for _ in range(kit.rng.randint(2, 3))]
    replies = kit.each(kit.read(p.module), _edit(kit), *_maybe(kit, _test(kit)))
    at = kit.rng.randint(0, 2)
    return [*replies[:at], *odd[:2], *replies[at:], *odd[2:], *last_words(kit)]


def calls_in_foreign_words(kit: Kit) -> Script:
    odd = [odd_call(kit) for _ in range(kit.rng.randint(2, 4))]
    replies = kit.each(_read(kit), kit.edit(), *_maybe(kit, _read(kit)))
    for reply in odd:
        replies.insert(kit.rng.randint(0, len(replies)), reply)
    return [*replies, *last_words(kit)]


def asks_for_much_at_once(kit: Kit) -> Script:
    p = kit.project
    first = [
        kit.shell("git log --oneline | head -5"),
        _read(kit),
        kit.read(p.other),
        *_some(kit, phrases.failures(p), 1, 1),
    ]
    kit.rng.shuffle(first)
    second = [kit.edit(), kit.read(p.module), *_maybe(kit, _test(kit))]
    return [
        kit.both(*first),
        kit.both(*second),
        *kit.each(*_some(kit, phrases.asides(), 0, 1)),
        *last_words(kit),
    ]


def writes_long_scripts(kit: Kit) -> Script:
    p = kit.project
    read, edit = kit.rng.choice(phrases.reads(p.module)), kit.rng.choice(phrases.edits(p))
    test, odd = kit.rng.choice(phrases.suite_runs(p)), kit.rng.choice(phrases.failures(p))
    run = kit.rng.choice(phrases.programs(p))
    line = kit.rng.choice(
        [
            f"set -e\n# look first, then repair and run pytest\n{read}\n{edit}\n{test}\n",
            f"cd /workspace || exit 1\n{odd}\n{read}\n\n{edit}\n{read}",
            f"{run}\n{edit}\necho '--- after'\n{run}",
            f"{edit}\n{test}\ngit diff | cat",
            f"if {run.splitlines()[0]}; then\n  echo fine\nfi\n{edit}"
            if "<<" not in run
            else f"{run}\n{edit}",
            f"# nothing is changed yet\n{read}\n{test}\n: done",
        ]
    )
    more = [_read(kit)] if kit.rng.random() < 0.5 else [_edit(kit)]
    return _all(kit, *_maybe(kit, kit.look()), kit.shell(line), *more)


def uses_its_tools_in_full(kit: Kit) -> Script:
    """Ranges, failed replacements, undone edits, working directories, sessions: what only this harness has."""
    p = kit.project
    calls = [read_by_tool(kit, p.module), *_maybe(kit, read_by_tool(kit, p.other)), *edit_by_tool(kit)]
    return _all(kit, *calls, *_maybe(kit, *session(kit)), *_maybe(kit, read_by_tool(kit, p.module)))


def goes_on_to_the_end(kit: Kit) -> Script:
    """Much of everything, until it is cut off."""
    p = kit.project
    calls = [
        *_some(kit, phrases.read_many(p), 1, 2),
        *_some(kit, phrases.failures(p), 1, 2),
        *_maybe(kit, *_some(kit, phrases.programs(p), 1, 1)),
        *_maybe(kit, _edit(kit)),
        *_some(kit, phrases.asides(), 1, 2),
        *[kit.shell("sleep 0; git status --short | wc -l")] * 12,
    ]
    return kit.each(*calls)


def sends_a_scout(kit: Kit) -> Script:
    """A sub-agent looks around and tests; who sent it edits. Where there are none, it does that itself."""
    p, name = kit.project, kit.harness
    scouted = [_read(kit, p.other), _test(kit)]
    own = [*_maybe(kit, _read(kit)), _edit(kit), *_maybe(kit, _read(kit))]
    if name == "mini-swe-agent":
        return _all(kit, *scouted, *own)
    if name == "codex":
        return _codex_sends(kit, *scouted, *own)
    kind = "general" if name == "opencode" else "general-purpose"
    tool = "Agent" if name == "claude-code" else "task"
    over = say("", (tool, {"description": "look around", "prompt": ERRAND, "subagent_type": kind}))
    report = say("", ("finish", {"message": REPORT})) if name == "openhands" else say(REPORT)
    return [over, *kit.each(*scouted), report, *kit.each(*own), *last_words(kit)]


def _codex_sends(kit: Kit, look: Asked, test: Asked, *own: Asked) -> Script:
    """Both ask at the same time: what each says depends on what it was told."""
    inner, outer, ends = kit.each(look, test), kit.each(*own), last_words(kit)

    def reply(context: str) -> Mapping[str, Any]:
        ids = re.findall(r'"agent_id": ?"([^"]+)"', context)
        num_done = len(
            re.findall(r"Process exited|Success\. Updated|apply_patch verification failed", context)
        )
        if kit.project.instruction not in context:
            return [*inner, say(REPORT)][min(num_done, 2)]
        if not ids:
            return say("", ("multi_agent_v1.spawn_agent", {"message": ERRAND}))
        if REPORT not in context:
            return say("", ("multi_agent_v1.wait_agent", {"targets": ids, "timeout_ms": 120_000}))
        return [*outer, *ends][min(num_done, len(outer))]

    return reply


HABITS = (
    reads_by_other_programs, reads_many_at_once, edits_by_programs, edits_by_programs_at_once,
    tests_by_other_runners, speaks_of_tests, fails_openly_or_not, tries_in_other_ways, does_more_than_asked,
    plans_with_tools, slips_and_goes_on, asks_for_much_at_once, writes_long_scripts, uses_its_tools_in_full,
    goes_on_to_the_end, sends_a_scout,
)  # fmt: skip
