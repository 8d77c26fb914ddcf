"""Codex CLI, inside the sandbox: one `codex exec` per rollout, told about the model by a catalogue of its own.

The catalogue gives the model Codex's shell and nothing that a function call cannot express: no freeform patch
tool. Exit code 1 is a failed turn: after a refusal, or after a reply that was cut. Its logs are in
`~/.codex/sessions`.
"""

from __future__ import annotations

import json

from lego_harness.adapters.inside import HOME, Inside, InsideAdapter
from lego_harness.adapters.install import CODEX
from lego_harness.adapters.options import HarnessOptions

_CATALOGUE = ".codex/models.json"
_CONFIG = f"""
model = "{{model}}"
model_provider = "lego"
model_catalog_json = "{HOME}/{_CATALOGUE}"
check_for_update_on_startup = false
allow_login_shell = false
web_search = "disabled"
project_doc_max_bytes = 0
model_reasoning_summary = "none"
include_permissions_instructions = false

[analytics]
enabled = false
[otel]
exporter = "none"
[agents]
enabled = SUBAGENTS
[skills.bundled]
enabled = false
[features]
goals = false
skill_search = false
plugins = false
apps = false
view_image = false
unbounded_connection_retries = false

[model_providers.lego]
name = "lego"
base_url = "{{url}}/v1"
wire_api = "responses"
env_key = "LEGO_KEY"
# The proxy absorbs failures; what it reports is final, and retries would only delay the end.
request_max_retries = 0
stream_max_retries = 0
# Its clock does not hear keep-alive comments; the rollout's own is the one that counts.
stream_idle_timeout_ms = 86400000
"""


def codex(options: HarnessOptions) -> InsideAdapter:
    """Codex CLI 0.171.0."""
    flags = ("--json", "--skip-git-repo-check", "--strict-config")
    return InsideAdapter(
        Inside(
            harness=CODEX,
            binary="node_modules/@openai/codex-linux-*/vendor/*/bin/codex",
            argv=("exec", *flags, "--dangerously-bypass-approvals-and-sandbox", "-"),
            env={"LEGO_KEY": "dummy", "TERM": "dumb"},
            files={
                ".codex/config.toml": _CONFIG.replace("SUBAGENTS", str(options.subagents).lower()),
                _CATALOGUE: json.dumps({"models": [_model(options)]}),
            },
        )
    )


def _model(options: HarnessOptions) -> dict[str, object]:
    return {
        "slug": "{model}",
        "display_name": "{model}",
        "supported_reasoning_levels": [],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 0,
        "support_verbosity": False,
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "experimental_supported_tools": [],
        "base_instructions": "You are a coding agent. Work in the current directory until the task is done.",
        "context_window": options.context_tokens,
    }
