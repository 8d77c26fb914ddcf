"""Replies in the words of each harness: what its own tools are called and how they are asked.

Owns no order; a script (`scripts.py`) strings replies together. `rng` chooses between the ways to do the same.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Sequence
from typing import Any

from tests.support.behaved.projects import Project
from tests.support.real_rollout import ARGUMENT, TOOL, finish
from tests.support.scripted_engine import say

Reply = dict[str, Any]
Asked = tuple[str, dict[str, Any]]
READERS = (
    "cat {}",
    "head -n 40 {}",
    "nl -ba {}",
    "sed -n '1,80p' {}",
    "tail -n +1 {}",
    "cat -n {} | head -60",
)
RUNNERS = (
    "python -m pytest -q",
    "pytest tests -q",
    "python3 -m unittest",
    "make test",
    "sh run_tests.sh",
    "chmod +x run_tests.sh && ./run_tests.sh",
    "python3 -m pytest -q tests 2>&1 | tail -n 5",
    "timeout 120 python -m unittest -v > /tmp/tests.log 2>&1; tail -n 4 /tmp/tests.log",
    "bash -c 'python -m unittest -q'",
)
SEARCHES = (
    "grep -rn def {}",
    "find {} -name '*.py'",
    "ls -la {}",
    "grep -rln return {} | head",
    "rg return {} || grep -rn return {}",
)


class Kit:
    """What an agent of one harness can do to one project."""

    def __init__(self, harness: str, project: Project, seed: str) -> None:
        self.harness, self.project = harness, project
        self.rng = random.Random(seed)

    # --- calls -----------------------------------------------------------------------------------

    def shell(self, command: str) -> Asked:
        return TOOL[self.harness], {ARGUMENT.get(self.harness, "command"): command}

    def look(self, where: str = ".") -> Asked:
        """A listing or a search."""
        named = {
            "opencode": [("grep", {"pattern": "return"}), ("glob", {"pattern": "**/*.py"})],
            "openhands": [("file_editor", {"command": "view", "path": "/workspace"})],
        }.get(self.harness, [])
        return self._either(named, [self.shell(x.format(*[where] * x.count("{}"))) for x in SEARCHES])

    def read(self, path: str) -> Asked:
        """A file, by the harness's own tool or by a command."""
        whole = f"/workspace/{path}"
        named = {
            "claude-code": [("Read", {"file_path": whole})],
            "opencode": [("read", {"filePath": whole})],
            "openhands": [("file_editor", {"command": "view", "path": whole})],
        }.get(self.harness, [])
        return self._either(named, [self.read_by_command(path)])

    def read_by_command(self, path: str) -> Asked:
        return self.shell(self.rng.choice(READERS).format(path))

    def test(self) -> Asked:
        return self.shell(self.rng.choice(RUNNERS))

    def edit(self, *, right: str = "", path: str = "") -> Asked:
        """The repair (or `right` in place of it), by the harness's own tool or by a command."""
        p = self.project
        right, whole = right or p.right, f"/workspace/{path or p.module}"
        named = {
            "claude-code": [("Edit", {"file_path": whole, "old_string": p.wrong, "new_string": right})],
            "opencode": [("edit", {"filePath": whole, "oldString": p.wrong, "newString": right})],
            "openhands": [
                (
                    "file_editor",
                    {"command": "str_replace", "path": whole, "old_str": p.wrong, "new_str": right},
                )
            ],
        }.get(self.harness, [])
        return self._either(named, [self.edit_by_command(right)])

    def edit_by_command(self, right: str) -> Asked:
        p = self.project
        fixed = p.source.replace(p.wrong, right)
        old, new = (
            next(x for x in text.splitlines() if y in x) for text, y in ((p.source, p.wrong), (fixed, right))
        )
        ways = [
            f"sed -i 's|{p.wrong}|{right.replace('&', chr(92) + '&')}|' {p.module}",
            f"cat > {p.module} <<'EOF'\n{fixed}EOF",
            f"python3 -c \"p='{p.module}'; s=open(p).read(); open(p,'w').write(s.replace({p.wrong!r}, {right!r}))\"",
            f"python3 - <<'EOF'\nfrom pathlib import Path\np = Path('{p.module}')\np.write_text(p.read_text().replace({p.wrong!r}, {right!r}))\nEOF",
            f"cd {p.package} && sed -i.bak -e 's|{p.wrong}|{right}|' {p.module.rpartition('/')[2]} && rm -f *.bak; cd ..",
            f"printf '%s' {shlex.quote(json.dumps(fixed))} | python3 -c 'import json,sys; open(\"{p.module}\",\"w\").write(json.loads(sys.stdin.read()))'",
        ]
        if self.harness == "codex":
            ways = [
                f"apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {p.module}\n@@\n-{old}\n+{new}\n*** End Patch\nEOF"
            ] * 3 + ways[:4]
        return self.shell(self.rng.choice(ways))

    def run_it(self) -> Asked:
        """A program of its own that shows what the function gives."""
        p = self.project
        body = f"from {p.dotted} import *\nprint({p.call})"
        line = body.replace("\n", "; ")
        return self.shell(
            self.rng.choice(
                [
                    f'python3 -c "{line}"',
                    f"python - <<'EOF'\n{body}\nEOF",
                    f'cd /workspace && PYTHONPATH=. python3 -c "{line}" && echo done',
                ]
            )
        )

    def write(self, path: str, text: str) -> Asked:
        """A new file."""
        whole = path if path.startswith("/") else f"/workspace/{path}"
        named = {
            "opencode": [("write", {"filePath": whole, "content": text})],
            "openhands": [("file_editor", {"command": "create", "path": whole, "file_text": text})],
        }.get(self.harness, [])
        return self._either(named, [self.shell(f"cat > {path} <<'EOF'\n{text}EOF")])

    # --- replies ---------------------------------------------------------------------------------

    def unusable(self) -> Reply:
        """A reply whose call cannot be used: broken, of no tool, without what it needs."""
        tool, _ = self.shell("")
        return self.rng.choice(
            [
                say(f'Hm.\n<tool_call>\n{{"name": "{tool}", "arguments": {{"comm\n</tool_call>'),
                say("", ("search_web", {"query": "how to repair it"})),
                say("", (tool, {"cwd": "/workspace"})),
                say("", (tool, {})),
            ]
        )

    def done(self) -> Reply:
        return finish(self.harness)

    def both(self, *calls: Asked) -> Reply:
        return say("", *calls)

    def each(self, *calls: Asked) -> list[Reply]:
        """A reply for each call, with a word or without."""
        words = ("", "", "Next.", "Let me look.")
        return [say(self.rng.choice(words), call) for call in calls]

    def _either(self, named: Sequence[Asked], by_command: Sequence[Asked]) -> Asked:
        """The harness's own tool twice as often as a command."""
        return self.rng.choice([*named * 2, *named * 2, *by_command] if named else list(by_command))
