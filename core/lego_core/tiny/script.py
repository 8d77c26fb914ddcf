"""What a scripted or demonstrated agent says in each harness.

An episode has three replies: read the file, replace the operator, finish. Invariant: no reply
copies a name from the task, and the second one restates the instruction's word right before it
decides, so that reading and deciding are separate tokens. Knows harness names, not their wire.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

READ = "cat *.py"
EDIT = ": {word}; sed -i 's@ [-+*/].* @ {operator} @' *.py; echo edited"
"""Replaces the first spaced operator of every line; files hold exactly one. What it prints tells the
policy that the edit lies behind it: silence would look like any other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """How one harness is driven."""

    tool: str
    """Name of its shell tool."""
    finish: str
    """The last command, or the last text when `finish_is_text`."""
    finish_is_text: bool = False

    def replies(self, *, word: str, operator: str) -> tuple[str, str, str]:
        """The three replies of an episode, rendered as the chat template renders them."""
        edit = EDIT.format(word=word, operator=operator)
        last = self.finish if self.finish_is_text else self._call(self.finish)
        return self._call(READ), self._call(edit), last

    def _call(self, command: str) -> str:
        arguments = json.dumps({"command": command})
        return f'<tool_call>\n{{"name": "{self.tool}", "arguments": {arguments}}}\n</tool_call>'


SCRIPTS = {
    "mini-swe-agent": Script(tool="bash", finish="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    "claude-code": Script(tool="Bash", finish="Done.", finish_is_text=True),
}
