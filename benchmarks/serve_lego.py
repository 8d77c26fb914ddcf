"""Our proxy in a process of its own, over the scripted policy; `control.py` says how it is spoken to.

Sessions are opened and closed as rollouts do; both belong to what the proxy costs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks.checkpoint import checkpoint
from benchmarks.control import Place, serve_control
from benchmarks.conversation import LONG, SHORT
from benchmarks.costs import Costs
from benchmarks.engine import InstantEngine
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.proxy.upstream import Engine
from lego_harness.proxy.upstream_http import HttpEngine
from lego_harness.types import Budget, Sampling

BUDGET = Budget(max_turns=10**6, max_tokens=10**9)
SHAPES = {"short": SHORT, "long": LONG}


class Sessions:
    """The open ones, by where they are served."""

    def __init__(self, proxy: CaptureProxy) -> None:
        self._proxy = proxy
        self._open: dict[str, Session] = {}
        self._num_opened = 0

    async def open(self) -> Place:
        self._num_opened += 1
        session = self._proxy.open_session(f"r{self._num_opened}", Sampling(max_tokens=4096), BUDGET)
        url = f"{session.endpoint.host_url}/v1"
        self._open[url] = session
        return {"url": url, "headers": {}}

    async def close(self, place: Place) -> dict[str, int]:
        capture = self._open.pop(place["url"]).close()
        if capture.stop is not None:
            raise RuntimeError(f"the proxy ended a session: {capture.stop} {capture.error}")
        tokens = sum(len(branch.ids) for branch in capture.branches)
        return {"turns": len(capture.turns), "branches": len(capture.branches), "tokens": tokens}


async def serve(engine: Engine, renderer: Renderer, costs: Costs) -> None:
    with tempfile.TemporaryDirectory() as folder:
        proxy = CaptureProxy(engine, renderer, socket_dir=Path(folder))
        await proxy.start()
        sessions = Sessions(proxy)
        await serve_control(sessions.open, sessions.close, costs=costs.so_far)


async def main(options: argparse.Namespace) -> None:
    costs = Costs()
    if options.shares:
        costs.put_up()
    renderer = Renderer.load(checkpoint(), max_model_len=10**6)
    if options.upstream:
        async with HttpEngine(options.upstream) as engine:
            await serve(engine, renderer, costs)
    else:
        await serve(
            InstantEngine(renderer, SHAPES[options.shape], has_routes=options.routes), renderer, costs
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--routes", action="store_true")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--upstream", help="ask this server for tokens, by HTTP, instead of itself")
    asyncio.run(main(parser.parse_args()))
