"""LiteLLM's proxy as its own command starts it, one worker, nothing that it does not need.

Run by the Python of its environment. Argument: URL of the upstream. Records no ids.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from pathlib import Path

CONFIG = """
model_list:
  - model_name: policy
    litellm_params: {{model: openai/policy, api_base: {url}/v1, api_key: none}}
litellm_settings: {{telemetry: false, num_retries: 0}}
general_settings: {{disable_spend_logs: true}}
"""


def serve(upstream: str) -> None:
    config = Path(tempfile.mkdtemp()) / "config.yaml"
    config.write_text(CONFIG.format(url=upstream))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    sys.stdout.write(json.dumps({"url": f"{url}/v1", "alive": f"{url}/health/liveliness"}) + "\n")
    sys.stdout.flush()
    os.dup2(2, 1)
    command = str(Path(sys.executable).with_name("litellm"))
    options = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1", "--telemetry", "False"]
    os.execv(sys.executable, [sys.executable, command, "--config", str(config), *options])


if __name__ == "__main__":
    serve(sys.argv[1])
