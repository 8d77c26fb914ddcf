"""The world outside, inside a sandbox that has none: a proxy by which every address has the repair of the task.

    outside.py REPAIR.tar PORT     comes back when it answers, and answers until its sandbox ends

What a network would have for an agent that nobody keeps from it, so that its defence is compared with something.
Stands alone: standard library only.
"""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Outside(BaseHTTPRequestHandler):
    """Answers every address alike."""

    repair = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.repair)))
        self.end_headers()
        self.wfile.write(self.repair)

    def log_message(self, *_: object, **__: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """Listen, then answer in the background."""
    Outside.repair = Path(sys.argv[1]).read_bytes()
    server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Outside)
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        server.serve_forever()


if __name__ == "__main__":
    main()
