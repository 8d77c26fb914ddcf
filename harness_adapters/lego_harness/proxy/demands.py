"""What a chat template must do to be continued token by token, each demand with the words of its refusal.

Looks at rendered probes only. `traits.py` asks for what may differ between templates; here stands what
may not.
"""

from __future__ import annotations

from lego_harness.errors import SetupError
from lego_harness.proxy.probes import (
    ANSWER,
    ASK,
    DESCRIPTION,
    QUESTION,
    RULE,
    SYSTEM,
    answer,
    call_turn,
    result,
    shown,
)
from lego_harness.proxy.template import ChatTemplate
from lego_harness.proxy.vocabulary import END_OF_TURN


def demand_turns(template: ChatTemplate, header: str) -> None:
    """An assistant turn stands between its header and the end-of-turn token."""
    turn = shown(template, ASK, answer())
    if header not in turn or f"{ANSWER}{END_OF_TURN}" not in turn:
        raise SetupError(
            f"the chat template shows an assistant turn as {turn[-80:]!r}, expected it to begin with {header!r} "
            f"and to end with {END_OF_TURN}"
        )


def demand_all_is_shown(template: ChatTemplate) -> None:
    """Nothing of a conversation is left out."""
    text = shown(template, SYSTEM, ASK, call_turn("c0"), result("c0"), has_tools=True)
    wanted = (RULE, DESCRIPTION, QUESTION, ANSWER, "result-c0")
    if missing := [word for word in wanted if word not in text]:
        raise SetupError(
            f"the chat template does not show {', '.join(missing)} of a conversation with a system message, "
            "a tool, a question, an answer with a call, and its result; point at a chat checkpoint with tools"
        )


def demand_continuation(template: ChatTemplate) -> None:
    """What follows a turn does not depend on what stood before it."""
    first, second = (call_turn("c0"), result("c0")), (call_turn("c1"), result("c1"))
    short = shown(template, ASK, *second, is_asked=True)
    long = shown(template, ASK, *first, *second, is_asked=True)
    end = short[short.rindex(END_OF_TURN, 0, short.rindex("result-c1")) :]
    if not long.endswith(end) or not long.startswith(shown(template, ASK)):
        raise SetupError(
            f"the chat template shows {end!r} otherwise in a longer conversation; only templates whose turns "
            "do not depend on their place can be continued token by token"
        )
