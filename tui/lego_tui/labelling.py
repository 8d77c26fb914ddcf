"""What a person says about the rollout they look at, typed in one line: the label, then why.

Kept as `lego review --label` keeps it: appended to the run, with who and when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_core.store.labels import LABELS, add_label, label_now
from lego_core.store.mailbox import myself
from lego_harness.errors import InfrastructureError
from lego_tui.feed.index import Entry
from lego_tui.feed.run import RunFeed
from lego_tui.safe import one_line
from lego_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from lego_tui.app import Watch

HINT = f"{' · '.join(LABELS)}; then why"


def ask_label(shell: Watch, purpose: str) -> None:
    """Ask for a label: `label`, or `exclude` for one that also wants the task out of the pool."""
    if shell.state.allow_control:
        shell.query_one(Prompt).ask(purpose, HINT)
    else:
        shell.say("read-only: start lego watch with --allow-control, or use lego review RUN --label")


def give_label(run: RunFeed, entry: Entry, typed: str, *, exclude: bool) -> str:
    """Label a rollout; returns the result in a sentence. The beginning of a label is enough if it is unambiguous."""
    word, _, note = typed.strip().partition(" ")
    meant = [label for label in LABELS if label.startswith(word)]
    if not word or len(meant) != 1:
        return (
            f"{one_line(word, 40)!r} is no label: expected one of {', '.join(LABELS)}; nothing was labelled"
        )
    said = label_now(entry.id, entry.task, meant[0], exclude=exclude, note=note.strip(), who=myself())
    try:
        add_label(run.layout.root, said)
    except InfrastructureError as error:
        return str(error)
    run.labels[entry.id] = said
    return f"{entry.id} is labelled {said.label}" + (
        f"; {entry.task} should leave the pool" if exclude else ""
    )
