"""mini-swe-agent in a fork server: `python mini_fork_server.py FD FOLDER`, in mini-swe-agent's own Python.

Owns what is imported once and how a command line is run. The protocol is that of `fork_server.py`.
"""

# pyright: basic, reportMissingImports=false
# minisweagent is installed in the harness's Python, not in ours.

from __future__ import annotations

import sys

from fork_server import ask_nobody, import_what_it_uses, serve


def load() -> str:
    """Import the program and whatever its first model call would import; its version."""
    import litellm
    import minisweagent
    import minisweagent.agents.interactive
    import minisweagent.models.litellm_model
    import minisweagent.run.mini
    import sandbox_environment  # noqa: F401

    import_what_it_uses(lambda: ask_nobody(litellm.completion))
    return minisweagent.__version__


def run(argv: list[str]) -> int:
    """Run its command line as its script would."""
    from minisweagent.run.mini import app

    sys.argv = argv
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    serve(load, run)
