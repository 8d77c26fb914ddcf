"""Which engine calls stand beside a rollout's conversations, and whether they are trained.

    class        is                                                              trained
    compaction   a text that a later history was begun anew around               yes
    title        no tools, shows the task and no turn, says one short line or    no
                 a short JSON object
    probe        asks for one token, as others do not, and nothing goes on       no
                 with it or it has no tools
    other        no tools, while the rollout's conversations offer some          yes

A sub-agent that has no tools at all is a conversation of its own. Owns this table: told from structure once the rollout has ended, never from a vendor's wording.
What is not trained is masked under `side_call:<class>` (law 2).
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_harness.proxy.exchange import Cause, Exchange
from lego_harness.proxy.strict_json import read_object
from lego_harness.proxy.summaries import MIN_QUOTE

COMPACTION, TITLE, PROBE, OTHER = "compaction", "title", "probe", "other"
IS_TRAINED = {COMPACTION: True, TITLE: False, PROBE: False, OTHER: True}
MAX_TITLE = 120
"""Characters."""
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OWN_HISTORY = (Cause.NEW_CONVERSATION, Cause.TOOLS_CHANGED)
_ROOTS = (*_OWN_HISTORY, Cause.START, Cause.SUB_AGENT)


def side_calls(exchanges: Sequence[Exchange]) -> list[str]:
    """The class of each exchange; empty for a conversation's own turns."""
    classes: list[str] = []
    for exchange in exchanges:
        if exchange.is_quoted:
            classes.append(COMPACTION)
        elif _lacks_tools(exchange, exchanges):
            classes.append(_kind(exchange, exchanges))
        elif _is_probe(exchange, exchanges):
            classes.append(PROBE)
        else:
            classes.append("")
    return classes


def mask_reason(side_call: str) -> str:
    """Why a call's tokens are not trained; empty when they are."""
    return "" if IS_TRAINED.get(side_call, True) else f"side_call:{side_call}"


def final_causes(exchanges: Sequence[Exchange], classes: Sequence[str]) -> list[Cause]:
    """Causes in the light of what turned out to be a side call: the first other call of each
    conversation is its start, whatever was asked beside it before."""
    beside = [_is_beside(*both, exchanges) for both in zip(exchanges, classes, strict=True)]
    begun: set[str] = set()
    callers = [x.caller for x, aside in zip(exchanges, beside, strict=True) if not aside]
    own = (caller for caller in callers if not caller.is_sub_agent)
    first = next((caller.thread for caller in (*own, *callers)), "")
    causes: list[Cause] = []
    for exchange, aside in zip(exchanges, beside, strict=True):
        cause, thread = exchange.departure.cause, exchange.caller.thread
        if aside:
            cause = Cause.SIDE_CALL if cause else cause
        elif thread not in begun and (cause in _ROOTS or exchange.parent is None):
            cause = Cause.START if thread == first else Cause.SUB_AGENT
        if not aside:
            begun.add(thread)
        causes.append(cause)
    return causes


def _is_beside(exchange: Exchange, side: str, exchanges: Sequence[Exchange]) -> bool:
    """Whether a side call leaves no history behind: it offers no tools, or is a history of its own."""
    is_apart = _lacks_tools(exchange, exchanges) or exchange.departure.cause in _OWN_HISTORY
    return side == PROBE or (bool(side) and is_apart)


def _lacks_tools(exchange: Exchange, exchanges: Sequence[Exchange]) -> bool:
    """Whether it offers no tools, while the rollout, or where a sub-agent asks that sub-agent, does."""
    caller = exchange.caller
    others = (x for x in exchanges if not caller.is_sub_agent or x.caller.thread == caller.thread)
    return not exchange.tools and any(other.tools for other in others)


def _kind(exchange: Exchange, exchanges: Sequence[Exchange]) -> str:
    if _asks_for_one(exchange):
        return PROBE
    return TITLE if _is_title(exchange, exchanges) else OTHER


def _is_probe(exchange: Exchange, exchanges: Sequence[Exchange]) -> bool:
    """As where a harness keeps a cache warm with the very question that it asks."""
    is_left = not any(other.parent is exchange for other in exchanges)
    return is_left and _asks_for_one(exchange) and not all(map(_asks_for_one, exchanges))


def _asks_for_one(exchange: Exchange) -> bool:
    return any(exchange.facts.get(limit) == 1 for limit in _LIMITS)


def _is_title(exchange: Exchange, exchanges: Sequence[Exchange]) -> bool:
    """It was shown what another conversation's first user message says, and answered in one line.

    Behind a turn of the policy such a line is the conversation's last word, from a harness that takes the
    tools away for it.
    """
    begun = _begun(exchange, exchanges)
    said = (begun + exchange.reply["content"]).strip()
    before = exchange.asked[:-1] if begun else exchange.asked
    is_behind_turn = any(message["role"] == "assistant" for message in before)
    if is_behind_turn or not said or len(said) > MAX_TITLE or ("\n" in said and read_object(said) is None):
        return False
    shown = [m["content"].strip() for m in exchange.asked if m["role"] == "user"]
    tasks = {_task(other) for other in exchanges if other.tools} - {""}
    return any(_is_about(text, task) for text in shown if text for task in tasks)


def _begun(exchange: Exchange, exchanges: Sequence[Exchange]) -> str:
    """How the reply was to begin: a last message of the assistant's that no policy said."""
    last = exchange.asked[-1]
    is_said = any(other.reply["content"].strip() == last["content"].strip() for other in exchanges)
    return last["content"] if last["role"] == "assistant" and not is_said else ""


def _is_about(text: str, task: str) -> bool:
    """Whether one holds the other, or the text a line of the task: both may be wrapped, and the text cut."""
    lines = (line.strip()[:MAX_TITLE] for line in task.split("\n"))
    return task in text or text in task or any(len(line) >= MIN_QUOTE and line in text for line in lines)


def _task(exchange: Exchange) -> str:
    return next((m["content"].strip() for m in exchange.asked if m["role"] == "user"), "")
