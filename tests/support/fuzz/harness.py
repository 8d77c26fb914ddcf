"""One client of a session: sends requests that are right, wrong, broken or given up, and checks each answer.

law    no 5xx and no hang; an error has the shape that official clients read; a wrong secret is 401;
       nothing of another session is in it
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from lego_harness.proxy.session import Session
from tests.support.fuzz.corpus import PATHS, corpus
from tests.support.fuzz.mutations import damaged, mutated
from tests.support.fuzz.raw_http import Answer, RawConnection, request

NO_METHODS = ("BREW", "post")
METHODS = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", *NO_METHODS)
TAILS = (
    "", "/", "/v1", "/v1/models", "/v1/models/x", "/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/responses/r",
    "/v1/messages/../chat/completions", "/v1//messages", "/v1/messages%00", "/v1/messages?x=%ff&y", "/é", "/v2/messages",
)  # fmt: skip
CANARY = re.compile(r"canary-([0-9a-f]{16})")
REPLY_ID = re.compile(rb'"(?:chatcmpl-|msg_|resp_)([0-9a-f]{24})"')


@dataclass(kw_only=True)
class Rollout:
    """One session with the history that its harnesses share."""

    session: Session
    name: str
    dialect: str
    body: dict[str, Any]
    others: set[str]
    """Names of all rollouts there ever were."""
    replies: set[bytes] = field(default_factory=set[bytes])
    """Ids of those that arrived whole."""

    @property
    def path(self) -> str:
        return self.session.endpoint.path

    def strangers(self, text: str) -> set[str]:
        """Other rollouts that a text tells of; a damaged name is nobody's."""
        return set(CANARY.findall(text)) & self.others - {self.name}

    def keep(self, reply: dict[str, Any], draw: random.Random) -> None:
        """The reply into the history, with something behind it."""
        KEEP[self.dialect](self.body, reply, f"result {draw.randrange(1000)}")


def _keep_chat(body: dict[str, Any], reply: dict[str, Any], text: str) -> None:
    message = reply["choices"][0]["message"]
    calls = message.get("tool_calls", [])
    results = [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]
    body["messages"] += [message, *(results or [{"role": "user", "content": text}])]


def _keep_messages(body: dict[str, Any], reply: dict[str, Any], text: str) -> None:
    calls = [block for block in reply["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": text} for call in calls]
    said = {"role": "assistant", "content": reply["content"]}
    body["messages"] += [said, {"role": "user", "content": results or text}]


def _keep_responses(body: dict[str, Any], reply: dict[str, Any], text: str) -> None:
    calls = [item for item in reply["output"] if item["type"] == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": c["call_id"], "output": text} for c in calls]
    body["input"] += [*reply["output"], *(outputs or [{"role": "user", "content": text}])]


KEEP: dict[str, Callable[[dict[str, Any], dict[str, Any], str], None]] = {
    "chat": _keep_chat,
    "messages": _keep_messages,
    "responses": _keep_responses,
}


class Harness:
    """One client of a session; `step` sends one request and checks what comes of it."""

    def __init__(self, rollout: Rollout, port: int, draw: random.Random, seen: Counter[str]) -> None:
        self._rollout, self._draw, self._seen = rollout, draw, seen
        self._connection = RawConnection(port)
        self._port = port
        self._unread: list[RawConnection] = []
        self.sent = b""
        """The last bytes, for whoever reads a failure."""

    async def step(self) -> None:
        """One request of a kind drawn by its weight."""
        (kind,) = self._draw.choices([kind for kind, _ in STEPS], [weight for _, weight in STEPS])
        self._seen[kind.__name__] += 1
        await kind(self)

    async def close(self) -> None:
        for connection in (self._connection, *self._unread):
            await connection.close()

    # --- kinds of requests -----------------------------------------------------------------------

    async def proper(self) -> None:
        stream = self._draw.random() < 0.3
        answer = await self._ask(self._post(self._raw({**self._rollout.body, "stream": stream})))
        if answer and answer.status == 200 and not stream:
            self._rollout.keep(answer.json(), self._draw)

    async def changed(self) -> None:
        await self._ask(self._post(self._raw(mutated(self._rollout.body, self._draw))))

    async def other_body(self) -> None:
        """Of whatever harness and dialect."""
        name, body = self._draw.choice(corpus())
        await self._ask(self._post(self._raw(mutated(body, self._draw)), PATHS[name]))

    async def damaged(self) -> None:
        await self._ask(self._post(damaged(self._raw(self._rollout.body), self._draw)))

    async def counted(self) -> None:
        tail = self._draw.choice(("/v1/messages/count_tokens", "/v1/responses/input_tokens"))
        await self._ask(self._post(self._raw(self._rollout.body), tail))

    async def elsewhere(self) -> None:
        method, tail = self._draw.choice((*METHODS, "POST", "GET")), self._draw.choice(TAILS)
        body = self._raw(self._rollout.body) if self._draw.random() < 0.5 else b""
        raw = request(method, self._rollout.path + tail, body)
        await self._ask(raw, is_head=method == "HEAD", is_http=method not in NO_METHODS and tail.isascii())

    async def wrong_secret(self) -> None:
        path = self._rollout.path
        at = self._draw.randrange(len("/rollout/"), len(path))
        other = self._draw.choice([c for c in "abcXYZ019-_" if c != path[at]])
        wrong = self._draw.choice((path[:at] + other + path[at + 1 :], path[:-1], path + other))
        answer = await self._ask(
            request("POST", wrong + PATHS[self._rollout.dialect], self._raw(self._rollout.body))
        )
        assert answer is not None
        assert answer.status == 401

    async def odd_headers(self) -> None:
        body = self._raw(self._rollout.body)
        headers: dict[str, str] = self._draw.choice(
            (
                {f"x-{i}": "y" * 50 for i in range(self._draw.choice((20, 200, 2000)))},
                {"x-long": "y" * self._draw.choice((4000, 9000, 100_000))},
                {"Content-Length": str(len(body) // 2)},
                {"Content-Length": "-1"},
                {"Content-Length": "x"},
                {"Content-Encoding": "gzip"},
                {"Content-Encoding": "snappy"},
                {"Transfer-Encoding": "chunked"},
                {"Expect": "100-continue"},
                {"Expect": "tea"},
                {"Content-Type": "text/plain; charset=utf-16"},
                {"Host": "\x00"},
                {"thread-id": "y" * 5000, "x-claude-code-agent-id": "é"},
            )
        )
        await self._ask(
            request("POST", self._rollout.path + PATHS[self._rollout.dialect], body, **headers), is_http=False
        )
        await self._connection.close()

    async def packed(self) -> None:
        body = gzip.compress(self._raw(self._rollout.body), 1)
        if self._draw.random() < 0.5:
            body = damaged(body, self._draw)
        path = self._rollout.path + PATHS[self._rollout.dialect]
        await self._ask(request("POST", path, body, Content_Encoding="gzip"))

    async def no_http(self) -> None:
        raw = damaged(self._post(self._raw(self._rollout.body)), self._draw)
        await self._connection.send(raw)
        self._connection.end_of_sending()
        answer = await self._connection.answer()
        self._check(answer, is_http=False)
        await self._connection.close()

    async def given_up(self) -> None:
        """The client vanishes: in the middle of its request, behind it, or in the middle of the answer."""
        body = {**self._rollout.body, "stream": self._draw.random() < 0.5}
        raw = self._post(self._raw(body))
        sent = self._draw.choice((len(raw), len(raw), self._draw.randrange(1, len(raw))))
        await self._connection.send(raw[:sent])
        for _ in range(self._draw.choice((0, 1, 5))):
            await asyncio.sleep(0)
        if sent == len(raw) and self._draw.random() < 0.5:
            await self._connection.read_some(self._draw.choice((1, 100)))
        self._connection.reset()

    async def unread(self) -> None:
        """A connection that waits for ever with an answer in it; closed when the round is over."""
        body = {**self._rollout.body, "stream": True}
        other = RawConnection(self._port)
        await other.send(self._post(self._raw(body)))
        self._unread.append(other)

    async def two_at_once(self) -> None:
        """The second request is there before the first one is answered."""
        one, other = self._rollout.body, mutated(self._rollout.body, self._draw)
        await self._connection.send(self._post(self._raw(one)) + self._post(self._raw(other)))
        for _ in range(2):
            if (answer := await self._connection.answer()) is None:
                break
            self._check(answer)

    # --- how it is sent, and what must come back -------------------------------------------------

    def _raw(self, body: object) -> bytes:
        return json.dumps(body, ensure_ascii=self._draw.random() < 0.7).encode("utf-8", "surrogatepass")

    def _post(self, body: bytes, tail: str = "") -> bytes:
        path = self._rollout.path + (tail or PATHS[self._rollout.dialect])
        return request("POST", path, body)

    async def _ask(self, raw: bytes, *, is_head: bool = False, is_http: bool = True) -> Answer | None:
        self.sent = raw
        answer = await self._connection.ask(raw, is_head=is_head)
        if answer is None and is_http:  # a kept connection that was closed meanwhile
            answer = await self._connection.ask(raw, is_head=is_head)
            assert answer is not None, "no answer to a proper request"
        self._check(answer, is_http=is_http, has_body=not is_head)
        return answer

    def _check(self, answer: Answer | None, *, is_http: bool = True, has_body: bool = True) -> None:
        if answer is None:
            return
        self._seen[str(answer.status)] += 1
        assert 200 <= answer.status < 500, (answer.status, answer.body[:500])
        assert not self._rollout.strangers(answer.body.decode("utf-8", "replace"))
        if answer.status >= 400 and is_http and has_body:
            error = answer.json()["error"]
            assert (type(error["message"]), type(error["type"])) == (str, str), error
        if answer.status == 200 and answer.is_whole:
            self._rollout.replies |= set(REPLY_ID.findall(answer.body))


STEPS: tuple[tuple[Callable[[Harness], Awaitable[None]], float], ...] = (
    (Harness.proper, 30),
    (Harness.changed, 25),
    (Harness.other_body, 5),
    (Harness.damaged, 15),
    (Harness.counted, 2),
    (Harness.elsewhere, 4),
    (Harness.wrong_secret, 4),
    (Harness.odd_headers, 3),
    (Harness.packed, 2),
    (Harness.no_http, 2),
    (Harness.given_up, 5),
    (Harness.unread, 1),
    (Harness.two_at_once, 2),
)
