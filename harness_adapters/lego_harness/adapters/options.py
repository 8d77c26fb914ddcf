"""What a run chooses about its harness, and the table that describes any other program.

    [harness]
    name = "command"
    [harness.command]
    argv = ["/opt/agent/run", "--api", "{url}/v1", "--model", "{model}", "--task", "{instruction_file}"]
    env = { OPENAI_API_KEY = "dummy" }
    mounts = { "/opt/agent" = "/srv/agent-1.2" }

Words of `argv` and values of `env` may contain

    {url}               where the dialects are served: `{url}/v1/chat/completions`, …
    {socket} {path}     the same without TCP: the proxy's unix socket, and the path before `/v1`
    {model}             the model name to send
    {context_tokens}    the run's window
    {instruction_file}  a file with the task's instruction, which also comes on stdin
    {sandbox}           only on the host: a JSON list, the argv to put before a command that is to run in the sandbox

In the sandbox the program starts in the workspace. On the host it starts in an empty folder that is its home, and
it is trusted there: whatever the model wants to run must go through `{sandbox}`. Owns these shapes; starts
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class CommandConfig(BaseModel):
    """The table `[harness.command]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    env: dict[str, str] = {}
    place: Literal["sandbox", "host"] = "sandbox"
    mounts: dict[str, str] = {}
    """Path inside the sandbox → host path that is mounted there, read-only."""
    version: str = "unknown"
    """Names the program in the run's records."""
    exit_codes: tuple[int, ...] = (0,)
    """Exit codes that mean nothing went wrong with the program itself."""
    memory_mb: int = Field(default=1024, ge=64)
    """Of the sandbox."""

    @model_validator(mode="after")
    def _fits_its_place(self) -> CommandConfig:
        if self.place == "sandbox" and any("{sandbox}" in word for word in (*self.argv, *self.env.values())):
            raise ValueError('{sandbox} enters the sandbox from outside, expected it with place = "host"')
        if self.place == "host" and self.mounts:
            raise ValueError(
                'mounts are shown to a program in the sandbox, expected none with place = "host"'
            )
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class HarnessOptions:
    """The same options for every harness, as far as it supports them."""

    subagents: bool = False
    """Offer the program's own tool for sub-agents, if it has one."""
    context_tokens: int = 131_072
    """The context window the program is told; near its end the program compacts its history."""
    command: CommandConfig | None = None
    """What the harness `command` runs."""
