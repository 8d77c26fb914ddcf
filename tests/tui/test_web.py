"""The display in a browser: only for this machine, only behind the secret, only to look."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from lego_tui.web import LoopbackServer

CHROMIUM = shutil.which("chromium")
PATIENCE_S = 120


@pytest.fixture
async def door() -> AsyncIterator[tuple[TestClient, LoopbackServer]]:
    server = LoopbackServer("true", port=0)
    async with TestServer(await server.guarded(), host="127.0.0.1") as running, TestClient(running) as client:
        server._origins.add(f"http://127.0.0.1:{running.port}")
        yield client, server


async def test_without_the_secret_there_is_nothing(door: tuple[TestClient, LoopbackServer]) -> None:
    client, server = door
    for path in ("/", "/ws", "/static/js/textual.js", f"/{server.secret[:-1]}/", "/x/"):
        assert (await client.get(path)).status == 404


async def test_with_the_secret_the_page_loads_nothing_from_elsewhere(
    door: tuple[TestClient, LoopbackServer],
) -> None:
    client, server = door
    answer = await client.get(f"/{server.secret}/")
    assert answer.status == 200
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert f"/{server.secret}/ws" in await answer.text()


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
async def test_another_page_cannot_reach_it(
    door: tuple[TestClient, LoopbackServer], headers: dict[str, str]
) -> None:
    client, server = door
    assert (await client.get(f"/{server.secret}/", headers=headers)).status == 403


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium; .ci/run installs it")
async def test_a_real_browser_shows_the_fleet_and_takes_keys(demo: Path, tmp_path: Path) -> None:
    from playwright.async_api import async_playwright

    command = [sys.executable, "-m", "lego_control", "watch", "--web", str(demo)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    serving = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    elsewhere: list[str] = []
    try:
        assert serving.stdout is not None
        address = re.match(r"http://\S+", (await serving.stdout.readline()).decode())
        assert address is not None
        async with async_playwright() as play:
            browser = await play.chromium.launch(
                executable_path=CHROMIUM,
                args=["--no-sandbox", "--disable-gpu"],
                timeout=1000 * PATIENCE_S,
            )
            page = await browser.new_page(viewport={"width": 1200, "height": 700})
            page.set_default_timeout(1000 * PATIENCE_S)
            page.on(
                "requestfinished", lambda r: elsewhere.append(r.url) if "127.0.0.1" not in r.url else None
            )
            await page.goto(address[0])
            await page.wait_for_selector("body.-first-byte")
            first = await _changed(page, b"", tmp_path / "fleet.png")
            await page.keyboard.press("Enter")
            await _changed(page, first, tmp_path / "run.png")
            await browser.close()
    finally:
        serving.send_signal(signal.SIGINT)
        await asyncio.wait_for(serving.communicate(), timeout=PATIENCE_S)
    assert elsewhere == []


async def _changed(page: Any, before: bytes, path: Path) -> bytes:
    """A picture with something on it that differs from the one before and stays as it is."""
    last = b""
    for _ in range(200):
        picture = await page.screenshot(path=path)
        if picture == last != before and len(picture) > 20_000:
            return picture
        last = picture
        await page.wait_for_timeout(500)
    raise AssertionError(f"{path} never changed and stayed")
