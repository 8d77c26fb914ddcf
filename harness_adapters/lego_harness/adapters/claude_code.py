"""Claude Code: a native binary, mounted read-only and run inside the sandbox.

Its only way out is the proxy's unix socket, reached through a loopback forwarder started in the same
exec. Each rollout is one `claude --bare -p` with a home of its own. Reads no transcript: the last
result object only says how the program itself fared.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.adapters.install import CLAUDE_CODE, reported_version
from lego_harness.errors import SetupError
from lego_harness.sandbox.base import PROXY_SOCKET, ExecResult, Mount, Sandbox
from lego_harness.types import Task

_FORWARDER = Path(__file__).parent / "programs" / "through_socket.py"
_BINARY_INSIDE = "/opt/lego/claude"
_FORWARDER_INSIDE = "/opt/lego/through_socket.py"
_HOME_INSIDE = "/tmp/home"
_SETTINGS = {
    "ANTHROPIC_API_KEY": "dummy",
    "IS_SANDBOX": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "DISABLE_PROMPT_CACHING": "1",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_THINKING": "1",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8192",
    # The proxy absorbs failures; what it reports is final, and retries would only delay the end.
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "TERM": "dumb",
}
_FLAGS = (
    *("--bare", "-p", "--output-format", "json", "--dangerously-skip-permissions"),
    *("--strict-mcp-config", "--disable-slash-commands", "--tools", "Bash,Edit,Read"),
)
_VERSION_ENV = {"PATH": "/usr/bin:/bin", "TERM": "dumb", **_SETTINGS}


class ClaudeCodeAdapter:
    """Claude Code 2.1.332."""

    name = CLAUDE_CODE.name
    version = CLAUDE_CODE.version

    async def check(self) -> None:
        await asyncio.to_thread(reported_version, [str(_binary()), "--version"], CLAUDE_CODE, _VERSION_ENV)

    def mounts(self) -> tuple[Mount, ...]:
        return (
            Mount(source=_binary(), target=_BINARY_INSIDE),
            Mount(source=_FORWARDER, target=_FORWARDER_INSIDE),
        )

    async def start(self) -> None:
        """Nothing is shared."""

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        result = await sandbox.exec(
            [
                "python3",
                "-I",
                "-S",
                "-B",
                _FORWARDER_INSIDE,
                PROXY_SOCKET,
                _HOME_INSIDE,
                _BINARY_INSIDE,
                *_FLAGS,
            ],
            timeout_s=timeout_s,
            env=_environment(endpoint),
            stdin=task.instruction.encode(),
        )
        return HarnessExit(
            exit_code=result.exit_code,
            output=(result.stdout + result.stderr)[-20_000:],
            timed_out=result.timed_out,
            killed_inside=_was_killed_inside(result),
        )

    async def close(self) -> None:
        """Nothing to stop: it ended with its sandbox."""


def _environment(endpoint: Endpoint) -> dict[str, str]:
    return {
        **_SETTINGS,
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{{port}}{endpoint.path}",
        "ANTHROPIC_MODEL": endpoint.model,
        "ANTHROPIC_SMALL_FAST_MODEL": endpoint.model,
    }


def _was_killed_inside(result: ExecResult) -> bool:
    """A shell's code for a signal; one that came from outside would have ended the exec itself."""
    return not result.timed_out and 128 < result.exit_code < 128 + 65


def _binary() -> Path:
    CLAUDE_CODE.require()
    found = sorted(CLAUDE_CODE.folder.glob("node_modules/@anthropic-ai/claude-code-linux-*/claude"))
    if len(found) != 1:
        raise SetupError(
            f"{CLAUDE_CODE.name} {CLAUDE_CODE.version}: found {len(found)} native binaries in "
            f"{CLAUDE_CODE.folder}, expected 1; remove that folder and {CLAUDE_CODE.how_to_install}"
        )
    return found[0]
