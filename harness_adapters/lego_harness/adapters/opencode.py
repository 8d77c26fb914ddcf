"""OpenCode, inside the sandbox: one `opencode run` per rollout, its server within the same process.

One `opencode serve` for many rollouts would save more than half of the 5 to 6 CPU-seconds that each one costs, but its
tools act where the server runs: on the host, or in one sandbox for all. So each rollout starts its own. Nothing
tried made that start cheaper by more than a seventh (a prepared home, a database in memory, no plug-ins, no
optimising compiler); a sandbox too small for the memory its runtime reserves makes it four times as expensive.
It exits with 1 after any error it met, even if it recovered and ended well, so that 1 means nothing.
Its logs are in `~/.local/share/opencode`.
"""

from __future__ import annotations

import json
from typing import Any

from lego_harness.adapters.inside import Inside, InsideAdapter, installed_inside
from lego_harness.adapters.install import OPENCODE
from lego_harness.adapters.options import HarnessOptions

_ENV = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    # Its runtime reserves 4 GB for this, of which it uses little: sandboxes bound what is reserved.
    "BUN_JSC_structureHeapSizeInKB": "131072",
    "TERM": "dumb",
}
# It would download this program for its grep and glob tools, and looks for it there first.
_RIPGREP = f"""#!/bin/sh
exec {installed_inside(OPENCODE.name)}/node_modules/@vscode/ripgrep-linux-*/bin/rg "$@"
"""


def opencode(options: HarnessOptions) -> InsideAdapter:
    """OpenCode 1.18.33."""
    return InsideAdapter(
        Inside(
            harness=OPENCODE,
            binary="node_modules/opencode-linux-*/bin/opencode",
            # A title of ours, since it would ask the model for one.
            argv=("run", "--format", "json", "--title", "task"),
            env=_ENV,
            files={
                ".config/opencode/opencode.json": json.dumps(_config(options)),
                ".cache/opencode/bin/rg": _RIPGREP,
            },
            ordinary=frozenset({0, 1}),
            memory_mb=4096,
        )
    )


def _config(options: HarnessOptions) -> dict[str, Any]:
    window = options.context_tokens
    limit = {"context": window, "output": min(8192, window // 4)}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "{url}/v1", "apiKey": "dummy"},
        "models": {"{model}": {"tool_call": True, "limit": limit}},
    }
    return {
        "model": "lego/{model}",
        "small_model": "lego/{model}",
        "provider": {"lego": provider},
        "enabled_providers": ["lego"],
        "permission": {"*": "allow"} if options.subagents else {"*": "allow", "task": "deny"},
        "autoupdate": False,
        "share": "disabled",
    }
