"""What happens in a recording: the replies of a scripted model, by who asks.

    scenario     shows
    plain        look, repair, check, end
    parallel     several calls in one reply, the slowest first
    subagent     two sub-agents
    compaction   outputs that fill the window, and the summary
    cut          a reply that ends at the limit of tokens

Owns these scripts. No line occurs twice, so that a reply identifies its step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lego_harness.errors import UsageError
from lego_harness.proxy.conversation import Message
from lego_harness.tasks.synth import SynthTask
from lego_harness.wire.scripted import Line
from lego_harness.wire.voices import Voice, say

Script = Mapping[str, Sequence[Line]]
"""By who asks (`main`, `sub:a`, `sub:b`, `side`, `compact`), what is said; the last line is repeated."""
TITLE = "Repair of one operator"
SUMMARY = (
    "<analysis>Seen.</analysis>\n<summary>\nThe operator in the one python file is wrong; "
    "the logs say nothing about it; repair it with sed, then compile it.\n</summary>"
)
NUM_LOGS = 14
"""More than any window here holds."""


def script_of(scenario: str, harness: str, voice: Voice, task: SynthTask) -> Script:
    """The lines of a scenario. Raises UsageError if the harness does not support it."""
    if scenario not in SCENARIOS:
        raise UsageError(f"scenario {scenario!r}: expected one of {', '.join(SCENARIOS)}")
    if scenario == "subagent" and voice.agent is None:
        raise UsageError(f"{harness} has no sub-agents; choose another scenario")
    if scenario == "compaction" and not voice.window:
        raise UsageError(f"{harness} never compacts its history; choose another scenario")
    main, *agents = SCENARIOS[scenario](voice, task)
    asides = {"side": [Line(message=say(TITLE))], "compact": [Line(message=say(SUMMARY))]}
    return {
        "main": main,
        **{f"sub:{name}": lines for name, lines in zip("ab", agents, strict=False)},
        **asides,
    }


def prompt_of(name: str) -> str:
    """The task of a sub-agent, by which it is known."""
    return f"[[SUB:{name}]] List the files and say what they are."


def _plain(voice: Voice, task: SynthTask) -> list[list[Line]]:
    look = say(
        "\n\nI will look at the file first.  \n", voice.shell("cat *.py"), thought="One file, one operator."
    )
    return [_lines(look, *_repair(voice, task), voice.end)]


def _parallel(voice: Voice, task: SynthTask) -> list[list[Line]]:
    commands = ("sleep 2; echo slow", "echo fast", "exit 3")
    three = say("Three at once.", *map(voice.shell, commands))
    return [_lines(three, *_repair(voice, task), voice.end)]


def _subagent(voice: Voice, task: SynthTask) -> list[list[Line]]:
    assert voice.agent is not None
    two = say("Two agents.", *(voice.agent(prompt_of(name)) for name in "ab"))
    answer = voice.answer or say
    agents = [
        _lines(say("", voice.shell("ls")), say("", voice.shell("cat *.py")), answer("A: one python file.")),
        _lines(say("", voice.shell("sleep 1; ls -a")), answer("B: one function in it.")),
    ]
    wait = [say("", voice.shell(voice.wait))] if voice.wait else []
    return [_lines(two, *wait, *_repair(voice, task), voice.end), *agents]


def _compaction(voice: Voice, task: SynthTask) -> list[list[Line]]:
    log = "seq -f 'line %05.0f of the log of run {}' 100"
    logs = [say("", voice.shell(log.format(number))) for number in range(NUM_LOGS)]
    return [_lines(*logs, *_repair(voice, task), voice.end)]


def _cut(voice: Voice, task: SynthTask) -> list[list[Line]]:
    look, cut = say("", voice.shell("cat *.py")), Line(message=say("This reply is cut"), is_cut=True)
    return [[*_lines(look), cut, *_lines(*_repair(voice, task), voice.end)]]


def _repair(voice: Voice, task: SynthTask) -> list[Message]:
    edit = f"sed -i 's@ [-+*/].* @ {task.wanted.operator} @' {task.file}; echo edited"
    check = f"python3 -m py_compile {task.file} && echo compiled"
    return [say("", voice.shell(edit)), say("Now a check.\n", voice.shell(check))]


def _lines(*messages: Message) -> list[Line]:
    return [Line(message=message) for message in messages]


SCENARIOS: Mapping[str, Callable[[Voice, SynthTask], list[list[Line]]]] = {
    "plain": _plain,
    "parallel": _parallel,
    "subagent": _subagent,
    "compaction": _compaction,
    "cut": _cut,
}
