"""Records an unmodified harness against a scripted model.

    adapter ─▶ harness in its sandbox ─▶ proxy ─▶ scripted engine
                                         └─▶ tap ─▶ calls, without keys, host and vendor prose

Owns nothing that lasts: proxy, harness and sandbox end with the call. Invariant: its result is what
`replay` takes, and the harness saw nothing but the usual proxy.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_harness.adapters.base import Adapter
from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import HarnessError
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.strict_json import encode, read_object
from lego_harness.registry import get_adapter
from lego_harness.sandbox.base import Phase, SandboxBackend, SandboxSpec
from lego_harness.tasks.folder import load_task, workspace_files
from lego_harness.tasks.synth import SynthTask, generate, write_task
from lego_harness.text import one_line
from lego_harness.types import Budget, Sampling
from lego_harness.wire.actor import Actor
from lego_harness.wire.byte_tokenizer import byte_renderer
from lego_harness.wire.prose import Prose
from lego_harness.wire.recording import Call
from lego_harness.wire.replay import OURS
from lego_harness.wire.said import dialect_of, read_text
from lego_harness.wire.scenarios import Script, script_of
from lego_harness.wire.scripted import ScriptedEngine
from lego_harness.wire.stream import items, table, text_of
from lego_harness.wire.tap import Heard, Tap
from lego_harness.wire.voices import voice_of

LABEL = "record"
LIMIT_S = 300.0
BUDGET = Budget(max_turns=60, max_tokens=2**20, max_seconds=LIMIT_S)


async def record(harness: str, scenario: str, backend: SandboxBackend) -> list[Call]:
    """What the harness sends in a scenario, and the answers. Raises UsageError for a scenario it lacks,
    HarnessError if it sent nothing."""
    voice, synth = voice_of(harness), next(generate("train", seed=0))
    script = script_of(scenario, harness, voice, synth)
    options = HarnessOptions(subagents=scenario == "subagent")
    if scenario == "compaction":
        options = HarnessOptions(context_tokens=voice.window)
    adapter = get_adapter(harness, options)
    await backend.check()
    await adapter.check()
    with tempfile.TemporaryDirectory(prefix="lego-record-") as folder:
        heard, output, actor = await _listen(adapter, backend, Path(folder), synth, script)
    if not heard:
        said = one_line(output, keep="end") or f"nothing within {LIMIT_S:.0f} s"
        raise HarnessError(f"{harness} sent no request; it said: {said}")
    return _calls(heard, actor, Prose(_own_texts(synth, script, heard)))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Note:
    """One exchange and when it was answered."""

    heard: Heard
    at_s: float


async def _listen(
    adapter: Adapter, backend: SandboxBackend, folder: Path, synth: SynthTask, script: Script
) -> tuple[list[_Note], str, Actor]:
    """Run the harness to its end; returns what was heard, and what it printed."""
    renderer, notes = byte_renderer(), list[_Note]()
    actor = Actor(script, renderer)
    tap = Tap(lambda heard: notes.append(_Note(heard=heard, at_s=time.monotonic())))
    proxy = CaptureProxy(ScriptedEngine(renderer, actor.directs), renderer, socket_dir=folder, tap=tap)
    task = load_task(write_task(folder / synth.function, synth, split="train"))
    await proxy.start()
    try:
        await adapter.start()
        session = proxy.open_session(LABEL, Sampling(max_tokens=2**20), BUDGET)
        spec = SandboxSpec(
            phase=Phase.AGENT,
            files=workspace_files(task),
            label=LABEL,
            proxy_socket=session.endpoint.socket,
            mounts=adapter.mounts(),
            limits=adapter.limits,
        )
        async with backend.open(spec) as sandbox:
            run = asyncio.ensure_future(adapter.run(task, sandbox, session.endpoint, timeout_s=LIMIT_S))
            ended = asyncio.ensure_future(session.ended.wait())
            await asyncio.wait({run, ended}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            output = run.result().output if run.done() else ""
            run.cancel()
            await asyncio.gather(run, ended, return_exceptions=True)
        session.close()
        return notes, output, actor
    finally:
        await adapter.close()
        await proxy.close()


def _calls(notes: Sequence[_Note], actor: Actor, prose: Prose) -> list[Call]:
    return [
        _call(n, note.heard, round(note.at_s - notes[0].at_s, 3), actor, prose)
        for n, note in enumerate(notes, 1)
    ]


def _call(n: int, heard: Heard, at_s: float, actor: Actor, prose: Prose) -> Call:
    path = "/" + "/".join(heard.path.split("/")[3:])
    text, dialect = _text(heard.written), dialect_of(path)
    body = read_object(_text(heard.body)) if heard.body else None
    spoken = actor.claim(read_text(dialect, text, is_stream=heard.is_stream).message) if dialect else None
    reply: dict[str, Any] = {"status": heard.status}
    if heard.is_stream:
        reply["sse"] = text
    elif text:
        reply["json"] = read_object(text)
    if not heard.is_over:
        reply["abort"] = "client"
    return Call.model_validate(
        {
            **{"n": n, "t": at_s, "method": heard.method, "path": path},
            "headers": [pair for pair in heard.headers if pair[0].lower() not in OURS],
            "body": prose.replaced(body),
            "class": spoken.who if spoken else "",
            "step": spoken.step if spoken else None,
            "reply": reply,
        }
    )


def _text(raw: bytes | bytearray) -> str:
    """What was sent, without names that belong to this machine."""
    text = raw.decode("utf-8", "replace")
    for own, common in ((sys.prefix, "/usr"), (sys.base_prefix, "/usr"), (platform.release(), "6.1.0")):
        text = text.replace(own, common)
    return text


def _own_texts(synth: SynthTask, script: Script, notes: Sequence[_Note]) -> list[str]:
    """Texts whose words are ours: the task, the script, the names of tools and parameters."""
    said = [encode(line.message) for lines in script.values() for line in lines]
    bodies = [table(read_object(_text(note.heard.body))) for note in notes]
    names = [" ".join(_tool_names(tool)) for body in bodies for tool in items(body.get("tools"))]
    return [synth.instruction, synth.source, synth.solved, synth.file, *said, *names]


def _tool_names(tool: dict[str, Any]) -> list[str]:
    function = table(tool.get("function")) or tool
    schema = table(function.get("parameters")) or table(function.get("input_schema"))
    inner = [name for one in items(tool.get("tools")) for name in _tool_names(one)]
    return [text_of(function.get("name")), *table(schema.get("properties")), *inner]
