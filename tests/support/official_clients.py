"""The official clients, pointed at a session, and the replies that each of them must understand."""

from __future__ import annotations

from typing import Any

import anthropic
import openai

from lego_harness.proxy.session import Session
from tests.support.scripted_engine import say

COMMANDS = [{"command": "ls é"}, {"command": "pwd"}]
TWO_CALLS = say("Two – “at once”.", *(("bash", command) for command in COMMANDS))
THOUGHT = {**say("Yes."), "reasoning_content": "Hm.\nWell."}


def async_openai(session: Session) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=session.endpoint.host_url + "/v1", api_key="x", max_retries=0)


def blocking_openai(session: Session) -> openai.OpenAI:
    return openai.OpenAI(base_url=session.endpoint.host_url + "/v1", api_key="x", max_retries=0)


def async_anthropic(session: Session) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=session.endpoint.host_url, api_key="x", max_retries=0)


def blocking_anthropic(session: Session) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=session.endpoint.host_url, api_key="x", max_retries=0)


def num_sampled(session: Session) -> int:
    return sum(len(turn.sampled_ids) for turn in session.close().turns)


def said(session: Session) -> list[dict[str, Any]]:
    """The conversation as it was captured, without the marks of its branches."""
    return [{k: v for k, v in message.items() if k != "branch"} for message in session.close().messages]


def wrong_secret(url: str) -> str:
    """The same address with another last character."""
    return url[:-1] + ("a" if url[-1] != "a" else "b")
