"""Each harness's own tools beyond a plain read and a plain edit: ranges, plans, thoughts, sessions, undone edits."""

from __future__ import annotations

from tests.support.behaved.kit import Asked, Kit


def aside_by_tool(kit: Kit) -> Asked:
    """A plan, a thought or a question, by the harness's own tool; a note by a command, where it has none."""
    plan = [{"content": "repair it", "status": "pending", "priority": "high"}]
    options = [{"label": "yes", "description": "go on"}, {"label": "no", "description": "stop"}]
    question = {"id": "q", "header": "Go on", "question": "Shall I repair it?", "options": options}
    own: dict[str, list[Asked]] = {
        "opencode": [
            ("todowrite", {"todos": plan}),
            ("skill", {"name": "debugging"}),
            ("webfetch", {"url": "http://docs.example.org/", "format": "text"}),
        ],
        "openhands": [
            ("think", {"thought": "The module at fault is the one that the task names; pytest will tell."}),
            ("task_tracker", {"command": "plan", "task_list": [{"title": "repair it", "status": "todo"}]}),
            ("task_tracker", {"command": "view"}),
        ],
        "codex": [("request_user_input", {"questions": [question]}), ("update_plan", {"plan": []})],
    }
    notes = [
        "echo 'Plan: 1. read the module 2. repair it 3. run the tests'",
        "cat > /tmp/plan.md <<'EOF'\n1. cat the module\n2. sed -i it\n3. pytest\nEOF",
        "# I think that the module is at fault\ntrue",
        ":",
    ]
    return kit.rng.choice(own.get(kit.harness) or [kit.shell(x) for x in notes])


def read_by_tool(kit: Kit, path: str) -> Asked:
    """A part of a file."""
    whole, first = f"/workspace/{path}", kit.rng.randint(1, 3)
    folder, _, name = path.rpartition("/")
    own: dict[str, list[Asked]] = {
        "claude-code": [
            ("Read", {"file_path": whole, "offset": first, "limit": 6}),
            ("Read", {"file_path": path}),
        ],
        "opencode": [
            ("read", {"filePath": whole, "offset": first, "limit": 5}),
            ("read", {"filePath": path}),
            ("read", {"filePath": f"/workspace/{folder}"}),
            ("grep", {"pattern": "def ", "path": f"/workspace/{folder}", "include": "*.py"}),
        ],
        "openhands": [
            ("file_editor", {"command": "view", "path": whole, "view_range": [first, 6]}),
            ("file_editor", {"command": "view", "path": path}),
            ("file_editor", {"command": "view", "path": f"/workspace/{folder}"}),
        ],
        "codex": [
            ("exec_command", {"cmd": f"cat {name}", "workdir": f"/workspace/{folder}"}),
            ("exec_command", {"cmd": f"sed -n '{first},9p' {path}", "max_output_tokens": 20}),
            ("exec_command", {"cmd": f"cat {path}", "yield_time_ms": 500, "login": False}),
        ],
        "mini-swe-agent": [
            ("bash", {"command": f"cd {folder} && sed -n '{first},9p' {name}"}),
            ("bash", {"command": f"head -c 200 {whole}"}),
        ],
    }
    return kit.rng.choice(own[kit.harness])


def edit_by_tool(kit: Kit) -> list[Asked]:
    """An edit with what may go before and after one."""
    p, whole = kit.project, f"/workspace/{kit.project.module}"
    plain = kit.edit()
    absent = "this is not in the file"
    own: dict[str, list[list[Asked]]] = {
        "claude-code": [
            [("Edit", {"file_path": whole, "old_string": absent, "new_string": "x"}), plain],
            [("Edit", {"file_path": whole, "old_string": p.wrong, "new_string": p.right, "replace_all": True})],
            [("Edit", {"file_path": "/workspace/NOTES.md", "old_string": "", "new_string": "# Notes\n"}), plain],
        ],
        "opencode": [
            [("edit", {"filePath": whole, "oldString": absent, "newString": "x"}), plain],
            [("write", {"filePath": whole, "content": p.repaired})],
            [("edit", {"filePath": p.module, "oldString": p.wrong, "newString": p.right, "replaceAll": True})],
        ],
        "openhands": [
            [("file_editor", {"command": "str_replace", "path": whole, "old_str": absent, "new_str": "x"}), plain],
            [
                ("file_editor", {"command": "insert", "path": whole, "insert_line": 0, "new_str": "# first\n"}),
                ("file_editor", {"command": "undo_edit", "path": whole}),
                plain,
            ],
            [("file_editor", {"command": "create", "path": whole, "file_text": p.repaired}), plain],
        ],
        "codex": [
            [("exec_command", {"cmd": _patch(kit, "-nothing like it"), "workdir": "/workspace"}), plain],
            [("exec_command", {"cmd": _patch(kit).replace(p.module, p.module.rpartition("/")[2]), "workdir": f"/workspace/{p.module.rpartition('/')[0]}"})],
            [("exec_command", {"cmd": f"cd /workspace && {_patch(kit)}"})],
        ],
        "mini-swe-agent": [[kit.shell(f"cd {p.package} && sed -i 's|{p.wrong}|{p.right}|' {p.module.partition('/')[2]}")]],
    }  # fmt: skip
    return kit.rng.choice(own[kit.harness])


def _patch(kit: Kit, gone: str = "") -> str:
    p = kit.project
    old = next(x for x in p.source.splitlines() if p.wrong in x)
    return (
        f"apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {p.module}\n@@\n{gone or '-' + old}\n"
        f"+{old.replace(p.wrong, p.right)}\n*** End Patch\nEOF"
    )


def session(kit: Kit) -> list[Asked]:
    """A program that waits for more, where the harness can hold one."""
    p = kit.project
    line = f"from {p.dotted} import *; print({p.call})\n"
    if kit.harness == "codex":
        start: Asked = ("exec_command", {"cmd": "python3 -q", "tty": True, "yield_time_ms": 500})
        return [start, ("write_stdin", {"session_id": 1, "chars": line, "yield_time_ms": 500})]
    if kit.harness == "openhands":
        start = ("terminal", {"command": "python3 -q", "timeout": 3})
        return [
            start,
            ("terminal", {"command": line.strip(), "is_input": True, "timeout": 3}),
            ("terminal", {"command": "C-d", "is_input": True, "timeout": 3}),
        ]
    return [kit.shell(f"python3 -q -i <<'EOF'\n{line}EOF")]
