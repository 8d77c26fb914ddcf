"""One line to type in: a filter, a command, the name of a run to stop."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class Prompt(Input):
    """Hidden until it is asked for; reports what was typed, and for which purpose."""

    DEFAULT_CSS = "Prompt { height: 1; border: none; padding: 0; background: $panel; display: none; } Prompt:focus { border: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False, priority=True)]

    class Typed(Message):
        """Something was typed, or entered with `is_final`."""

        def __init__(self, purpose: str, text: str, *, is_final: bool) -> None:
            super().__init__()
            self.purpose, self.text, self.is_final = purpose, text, is_final

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, compact=True, select_on_focus=False)
        self.purpose = ""

    def ask(self, purpose: str, hint: str, text: str = "") -> None:
        """Show the line and take the keys."""
        self.purpose = purpose
        self.placeholder = hint
        self.value = text
        self.display = True
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display:
            self.post_message(self.Typed(self.purpose, self.value, is_final=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close(self.value)

    def action_leave(self) -> None:
        self._close("")

    def _close(self, text: str) -> None:
        purpose, self.display = self.purpose, False
        self.post_message(self.Typed(purpose, text, is_final=True))
