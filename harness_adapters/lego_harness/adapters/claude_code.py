"""Claude Code, inside the sandbox: one `claude -p` per rollout.

Without sub-agents it runs with `--bare`, the program's smallest prompt. That mode offers no sub-agents, so with
them the full prompt is used, and its own agents run in the foreground. It exits with 1 for failed calls.
Its logs are in `~/.claude/projects`.
"""

from __future__ import annotations

from lego_harness.adapters.inside import Inside, InsideAdapter
from lego_harness.adapters.install import CLAUDE_CODE
from lego_harness.adapters.options import HarnessOptions

_FLAGS = (
    *("-p", "--output-format", "json", "--dangerously-skip-permissions"),
    *("--strict-mcp-config", "--disable-slash-commands", "--tools"),
)
_ENV = {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_API_KEY": "dummy",
    "ANTHROPIC_MODEL": "{model}",
    "ANTHROPIC_SMALL_FAST_MODEL": "{model}",
    "IS_SANDBOX": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "DISABLE_PROMPT_CACHING": "1",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_THINKING": "1",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8192",
    # The proxy absorbs failures; what it reports is final, and retries would only delay the end.
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "TERM": "dumb",
}
_AGENT_ENDED = ('"terminal_reason":"blocking_limit"', '"terminal_reason":"autocompact_thrashing"')
"""It filled its window, once or repeatedly."""


def claude_code(options: HarnessOptions) -> InsideAdapter:
    """Claude Code 2.1.332."""
    mode = () if options.subagents else ("--bare",)
    tools = "Bash,Edit,Read,Agent" if options.subagents else "Bash,Edit,Read"
    return InsideAdapter(
        Inside(
            harness=CLAUDE_CODE,
            binary="node_modules/@anthropic-ai/claude-code-linux-*/claude",
            argv=(*mode, *_FLAGS, tools),
            agent_ended=_AGENT_ENDED,
            env={**_ENV, "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(options.context_tokens)},
        )
    )
