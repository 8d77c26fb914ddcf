"""`python -m lego_core.tiny`: build the tiny policy in a process of its own.

Progress goes to stderr; the last line on stdout is the checkpoint folder.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TextIO

import torch

from lego_core.tiny.build import build
from lego_harness.errors import LegoError
from lego_harness.sandbox.choose import BACKENDS, choose_backend


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    torch.set_num_threads(arguments.threads)
    try:
        backend = choose_backend(arguments.sandbox)
        built = asyncio.run(
            build(
                arguments.harness,
                backend,
                seed=arguments.seed,
                out=arguments.out,
                is_fresh=arguments.fresh,
                report=lambda line: _say(sys.stderr, line),
            )
        )
    except LegoError as error:
        _say(sys.stderr, f"lego: {error}")
        return error.exit_code
    _say(sys.stdout, str(built.folder))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lego tiny-model", description="Build the tiny policy.")
    parser.add_argument("--harness", default="mini-swe-agent")
    parser.add_argument("--sandbox", choices=BACKENDS, default="auto", help="where the harness is recorded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for the checkpoint instead of the cache")
    parser.add_argument("--fresh", action="store_true", help="build even when the cache has it")
    parser.add_argument("--threads", type=int, default=1, help="more cost more than they bring")
    return parser


def _say(stream: TextIO, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
