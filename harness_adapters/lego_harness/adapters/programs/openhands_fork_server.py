"""The OpenHands SDK in a fork server: `python openhands_fork_server.py FD FOLDER`, in the SDK's own Python.

Owns what is imported once and how one conversation is held: the SDK's default agent without its browser,
told of one model, acting in one sandbox. Exit codes: 0 finished, 1 an exception, STUCK and CAPPED where
the SDK itself ended the agent. The protocol is that of `fork_server.py`.
"""

# pyright: basic, reportMissingImports=false
# The SDK is installed in the harness's Python, not in ours.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fork_server import ask_nobody, import_what_it_uses, serve

STUCK, CAPPED = 3, 4


def load() -> str:
    """Import the SDK and whatever its first model call would import; its version."""
    import litellm
    import openhands.sdk
    import openhands.tools.file_editor.impl
    import openhands.tools.preset.default
    import openhands.tools.task.impl
    import openhands.tools.terminal.terminal.subprocess_terminal
    import openhands_tools  # noqa: F401

    import_what_it_uses(lambda: ask_nobody(litellm.completion))
    return openhands.sdk.__version__


def run(argv: list[str]) -> int:
    """Hold the conversation that `argv[0]`, a JSON object, describes."""
    from openhands.sdk import Conversation
    from openhands_tools import act_inside

    settings = json.loads(argv[0])
    home = Path.home()
    act_inside(settings["prefix"], programs=settings["programs"], home=home)
    (home / "workspace").mkdir()  # the SDK wants one on its own side too; nothing is put there
    conversation = Conversation(
        agent=_agent(settings),
        workspace=home / "workspace",
        persistence_dir=home / "conversation",
        visualizer=None,
    )
    conversation.send_message(settings["instruction"])
    conversation.run()
    status = conversation.state.execution_status.value
    print(f"the conversation ended as {status}")  # noqa: T201 (this is the program's own output)
    return {"finished": 0, "stuck": STUCK, "error": CAPPED}.get(status, 1)


def _agent(settings: dict[str, Any]) -> Any:
    from openhands.sdk.tool import Tool
    from openhands.tools.preset.default import get_default_agent, register_builtins_agents
    from openhands.tools.task import TaskToolSet

    agent = get_default_agent(llm=_model(settings), cli_mode=True)
    if not settings["subagents"]:
        return agent
    register_builtins_agents(enable_browser=False)
    return agent.model_copy(update={"tools": [*agent.tools, Tool(name=TaskToolSet.name)]})


def _model(settings: dict[str, Any]) -> Any:
    """An unknown model without quirks; the proxy samples, absorbs failures and keeps the time."""
    from openhands.sdk import LLM
    from pydantic import SecretStr

    return LLM(
        model=f"openai/{settings['model']}",
        base_url=settings["base_url"],
        api_key=SecretStr("dummy"),
        usage_id="agent",
        max_input_tokens=settings["max_input_tokens"],
        reasoning_effort=None,
        capability_overrides={"supports_sampling_params": True, "supports_reasoning_effort": False},
        num_retries=1,
        timeout=None,
    )


if __name__ == "__main__":
    serve(load, run)
