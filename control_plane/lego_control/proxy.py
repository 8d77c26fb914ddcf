"""Capture in front of a vLLM server, without training.

Owns the sessions: each path below the printed address is a session, opened on its first request, and each
becomes a line of the file when the proxy is stopped. Invariant: without the token in the address, nobody
opens anything.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from lego_core.recipe_file import toml_value
from lego_harness.errors import LegoError, UsageError
from lego_harness.output import writing
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from lego_harness.proxy.patience import PatientEngine
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.proxy.upstream_http import HttpEngine
from lego_harness.types import Budget, Sampling
from lego_harness.wire.captured import as_line

UNLIMITED = Budget(max_turns=2**31, max_tokens=2**40, max_seconds=1e9)
MAX_SESSIONS = 1000
NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
FIRST = "session"


def serve(
    *,
    upstream: str,
    model: Path,
    template_options: Mapping[str, object],
    port: int,
    out: Path,
    sampling: Sampling,
) -> int:
    """Capture until interrupted; returns the exit code. Raises UsageError and infrastructure errors."""
    if out.exists():
        raise UsageError(f"--out {out}: is there already; choose a new name")
    with writing(f"--out {out}"):
        file = out.open("x", encoding="utf-8")
    with file:
        try:
            captures = asyncio.run(_serve(upstream, model, template_options, port, sampling))
        except LegoError:
            out.unlink()
            raise
        file.writelines(as_line(name, capture) for name, capture in captures.items())
    click.echo(f"{len(captures)} sessions in {out}")
    return 0


async def _serve(
    upstream: str, model: Path, template_options: Mapping[str, object], port: int, sampling: Sampling
) -> dict[str, Capture]:
    async with HttpEngine(upstream) as engine:
        renderer = Renderer.load(model, max_model_len=await engine.look(), template_options=template_options)
        with tempfile.TemporaryDirectory(prefix="lego-proxy-") as folder:
            doors = _Doors(sampling)
            proxy = CaptureProxy(
                PatientEngine(engine), renderer, socket_dir=Path(folder), on_unknown=doors.knock
            )
            doors.proxy = proxy
            try:
                await _start(proxy, port)
                _tell(doors.open(FIRST))
                await _interrupted()
                return {name: session.close() for name, session in doors.sessions.items()}
            finally:
                await proxy.close()


async def _start(proxy: CaptureProxy, port: int) -> None:
    try:
        await proxy.start(port=port)
    except OSError as error:
        raise UsageError(f"--port {port}: cannot be listened on: {error.strerror}") from error


def read_options(words: Sequence[str]) -> dict[str, object]:
    """`NAME=VALUE` each, the value as TOML writes it, else as text. Raises UsageError.

    >>> read_options(["enable_thinking=false", "reasoning_effort=low"])
    {'enable_thinking': False, 'reasoning_effort': 'low'}
    """
    options: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--template-option {word!r}: expected NAME=VALUE, as in enable_thinking=false")
        options[name] = toml_value(value)
    return options


class _Doors:
    """The names that sessions are opened under."""

    proxy: CaptureProxy

    def __init__(self, sampling: Sampling) -> None:
        self.sessions: dict[str, Session] = {}
        self._token = secrets.token_urlsafe(16)
        self._sampling = sampling

    def knock(self, secret: str) -> None:
        """Open the session that a request names after the token."""
        token, _, name = secret.partition(".")
        is_known = hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())
        is_new = name not in self.sessions  # the first one has a name, and another path
        if is_known and is_new and NAME.fullmatch(name) and len(self.sessions) < MAX_SESSIONS:
            self.open(name)

    def open(self, name: str) -> Session:
        """Open a session; the path of the first one is the token alone."""
        secret = self._token if not self.sessions else f"{self._token}.{name}"
        session = self.proxy.open_session(name, self._sampling, UNLIMITED, secret=secret)
        self.sessions[name] = session
        return session


def _tell(session: Session) -> None:
    url = session.endpoint.host_url
    click.echo(f"OPENAI_BASE_URL={url}/v1")
    click.echo(f"ANTHROPIC_BASE_URL={url}")
    click.echo(f"Another session under each name: {url}.NAME (with /v1 for OpenAI clients). Any key does.")
    click.echo("Stop with Ctrl-C; then the sessions are written.")


async def _interrupted() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
