"""What agents did is read alike from every harness's messages."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_tui.actions import LETTERS, actions
from lego_tui.behaviours.acts import calls_of
from lego_tui.behaviours.shell import acts_of
from lego_tui.behaviours.table9 import Behaviour, behaviour_of, pass_rates, table9
from lego_tui.behaviours.vocabulary import KINDS

Message = dict[str, Any]


def call(name: str, arguments: object, result: str = "ok", **more: Any) -> list[Message]:
    function = {"name": name, "arguments": arguments}
    said = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"{name}{arguments}", "function": function}],
    }
    return [said, {"role": "tool", "tool_call_id": f"{name}{arguments}", "content": result, **more}]  # fmt: skip


def flat(*parts: list[Message]) -> list[Message]:
    return [{"role": "user", "content": "repair it"}, *(message for part in parts for message in part)]


def bash(command: str, code: int = 0) -> list[Message]:
    return call("bash", {"command": command}, json.dumps({"returncode": code, "output": "x"}))


ANSWER = [{"role": "assistant", "content": "Done."}]
SAME = {
    "mini-swe-agent": flat(
        bash("ls src && cat src/a.py"), bash("python -m pytest -q", 1), bash("sed -i 's/1/2/' src/a.py"),
        bash("cd src; sed -n 1,9p a.py"), bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ),
    "claude-code": flat(
        call("Glob", {"pattern": "src/*"}), call("Read", {"file_path": "/w/src/a.py"}),
        call("Bash", {"command": "python -m pytest -q"}, "Exit code 1\n1 failed"),
        call("Edit", {"file_path": "/w/src/a.py", "old_string": "1", "new_string": "2"}),
        call("Read", {"file_path": "src/a.py"}), ANSWER,
    ),
    "opencode": flat(
        call("list", {"path": "src"}), call("read", {"filePath": "src/a.py"}),
        call("bash", {"command": "pytest"}, "1 failed\nexit code: 1"),
        call("edit", {"filePath": "src/a.py"}), call("read", {"filePath": "src/a.py"}), ANSWER,
    ),
    "codex": flat(
        call("exec_command", {"cmd": ["bash", "-lc", "rg x src | head; cat src/a.py"]}),
        call("exec_command", {"cmd": "pytest -q"}, "Process exited with code 1"),
        call("apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n@@\n-1\n+2\n*** End Patch"),
        call("exec_command", {"cmd": "nl -ba src/a.py"}), ANSWER,
    ),
    "openhands": flat(
        call("terminal", {"command": "find src"}), call("file_editor", {"command": "view", "path": "/w/src/a.py"}),
        call("terminal", {"command": "cd /w && python -m unittest"}, "FAILED\n[Command finished with exit code 1]"),
        call("file_editor", {"command": "str_replace", "path": "/w/src/a.py"}),
        call("file_editor", {"command": "view", "path": "/w/src/a.py"}), call("finish", {"message": "done"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("harness", SAME)
def test_the_same_work_is_the_same_behaviour_in_every_harness(harness: str) -> None:
    seen = behaviour_of(SAME[harness], harness=harness, is_completed=True)
    assert (seen.files_explored, seen.num_failed, seen.num_malformed) == (1, 1, 0)
    assert seen.reads_back
    assert seen.runs_tests
    assert seen.finishes
    assert seen.reproduces


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("cat > a.py <<'EOF'\nimport os; rm -rf x && pytest\nEOF", ["edit"]),
        ("python - <<EOF\nopen('a.py', 'w').write('x')\nEOF", ["edit"]),
        ("python -c 'print(1)'", ["execute"]),
        ("PYTHONPATH=. timeout 60 python -m pytest tests 2>&1 | tail -5", ["test", "run"]),
        ("grep -rn 'a && b; c' src", ["explore"]),
        ("git diff > /dev/null; git log", ["read", "explore"]),
        ("echo 'pytest' # pytest", ["run"]),
        ("pip install pytest", ["run"]),
        ("sed -i.bak 's/a/b/' x.py; make check", ["edit", "test"]),
        ("cat <<'A' | git apply\n+++ b/x.py\nA", ["run", "edit"]),
        ("pytest -q > out.log 2>&1; tail out.log", ["test", "read"]),
        ("python gen.py > data.txt", ["execute"]),
        ("sed s/a/b/ x.py > y.py", ["edit"]),
        ("cat > /tmp/x.py <<E\nprint(1)\nE\npython /tmp/x.py", ["run", "execute"]),
        ("bash -lc 'cd x && make -s test'", ["explore", "test"]),
        ("bash <<E\ncat a.py\nE", ["read"]),
        ("chmod +x run_tests.sh && ./run_tests.sh", ["run", "test"]),
        ("sh ci/run-tests.sh; python tests/test_a.py; uv run pytest", ["test", "test", "test"]),
        ("for f in a.py b.py; do cat $f; done", ["run", "read", "run"]),
        ("find . -name '*.py' -exec sed -i s/a/b/ {} +", ["explore", "edit"]),
        ("find . -name '*.py' | xargs -n 1 grep def", ["explore", "explore"]),
        ("python -c \"\nopen('a', 'w')\ncat = 1\n\"; ls", ["edit", "explore"]),
        ("python -c 'import sys; sys.stdout.write(\"x\")'", ["execute"]),
        ("echo $((1 << x))\nls", ["run", "run", "explore"]),
        ('echo "$(<a.py)"; x=`cat b.py`', ["read", "run", "read", "run"]),
        ("git ls-files | xargs cat; cat $(ls *.py)", ["explore", "read", "explore", "read"]),
        ("grep -l a . | xargs sed -i s/a/b/", ["explore", "edit"]),
        ("cat < a.py; cut -c1-9 a.py; perl -ne print a.py; jq . a.json", ["read"] * 4),
        (
            "git show HEAD:a.py; git blame a.py; git stash list; git apply --check x",
            ["read", "read", "run", "run"],
        ),
        ("pytest --version; python -m pytest --collect-only -q; make -n test; python -V", ["run"] * 4),
        ("python -m tests.test_a; python -c 'import pytest; pytest.main()'", ["test", "test"]),
        ("python -c \"print(open('a.py').read())\"", ["read"]),
        ("python -c \"import ast; ast.parse(open('a.py').read())\"", ["execute"]),
        ("rm -rf build .pytest_cache; cp -r . /tmp/w; ln -s a b; touch c", ["run", "run", "edit", "edit"]),
        ("echo it's unclosed", ["run"]),
        ("", ["run"]),
    ],
)
def test_a_command_line_is_what_each_of_its_commands_does(command: str, kinds: list[str]) -> None:
    assert [act.kind for act in acts_of(command)] == kinds


def test_files_are_named_as_the_command_names_them() -> None:
    assert acts_of("head -n 20 a.py b.py")[0].paths == ("a.py", "b.py")
    assert acts_of("sed -n 1,9p a.py")[0].paths == ("a.py",)
    assert acts_of("sed -i 's/a/b/' a.py")[0].paths == ("a.py",)
    assert acts_of("echo 1 >> log.txt")[0].paths == ("log.txt",)
    assert acts_of("cd src && cat a.py; cd ../lib; cat b.py")[1].paths == ("src/a.py",)
    assert acts_of("for f in a.py b.py; do cat $f; done")[1].paths == ("a.py", "b.py")
    assert acts_of("F=a.py; cat $F")[1].paths == ("a.py",)
    assert acts_of("python -c \"p='src/a.py'; open(p, 'w').write('x')\"")[0].paths == ("src/a.py",)


@pytest.mark.parametrize(
    ("harness", "message"),
    [
        ("claude-code", call("Bash", {"__unparsedToolInput": {"raw": "{"}})),
        ("claude-code", call("Edit", {}, "<tool_use_error>InputValidationError: Edit failed</tool_use_error>")),
        ("opencode", call("invalid", {"tool": "x", "error": "y"})),
        ("openhands", call("terminal", {"_openhands_malformed_tool_call": True})),
        ("mini-swe-agent", [{"role": "assistant", "content": 'so <tool_call>{"name": "ba'}]),
        ("mini-swe-agent", [{"role": "assistant", "content": "?"}, {"role": "user", "content": "No tool calls found"}]),
    ],
)  # fmt: skip
def test_a_call_that_could_not_be_read_is_malformed_and_no_act(harness: str, message: list[Message]) -> None:
    (found,) = calls_of(flat(message), harness)
    assert found.is_malformed
    assert not found.acts
    assert actions(flat(message), harness)[0].kind == "malformed"


def test_what_did_not_happen_is_not_claimed() -> None:
    seen = behaviour_of(flat(bash("cat a.py"), bash("sed -i s/a/b/ b.py"), bash("pytest")), harness="mini-swe-agent", is_completed=True)  # fmt: skip
    assert not seen.reads_back  # it read another file
    assert not seen.reproduces  # the tests came behind the edit
    assert not seen.finishes
    cut = behaviour_of(SAME["claude-code"], harness="claude-code", is_completed=False)
    assert not cut.finishes


REPRO = bash("cat > repro.py <<E\nimport a\nE"), bash("python3 repro.py")
EDIT = bash("sed -i s/a/b/ a.py")


def seen(*parts: list[Message], harness: str = "mini-swe-agent") -> Behaviour:
    return behaviour_of(flat(*parts), harness=harness, is_completed=True)


def test_a_program_of_its_own_is_no_edit_and_running_it_reproduces() -> None:
    assert seen(*REPRO, bash("cat b.py"), EDIT).reproduces
    assert seen(*REPRO, bash("cat b.py"), EDIT).files_explored == 1
    assert not seen(*REPRO, bash("cat b.py")).reproduces  # nothing was edited
    assert not seen(EDIT, *REPRO).reproduces
    assert not seen(bash("cat > a.py <<E\n1\nE"), EDIT, bash("python a.py")).files_explored


def test_what_failed_did_not_happen() -> None:
    missing = "cat: b.py: No such file or directory"
    gone = call("bash", {"command": "cat b.py"}, json.dumps({"returncode": 1, "output": missing}))
    assert seen(gone, bash("cat a.py"), EDIT).files_explored == 1
    assert not seen(bash("sed -i s/a/b/ a.py", 1), bash("cat a.py")).reads_back
    absent = call(
        "bash", {"command": "tox"}, json.dumps({"returncode": 127, "output": "tox: command not found"})
    )
    assert not seen(absent).runs_tests
    assert seen(bash("pytest", 1)).runs_tests


def test_what_the_result_does_not_bear_out_did_not_happen() -> None:
    def ran(command: str, output: str, code: int = 0) -> list[Message]:
        return call("bash", {"command": command}, json.dumps({"returncode": code, "output": output}))

    assert not seen(ran("npm test --silent", "", 254)).runs_tests
    assert seen(ran("pytest > log", "", 1)).runs_tests
    assert not seen(ran("set -e\nex -sc x a.py\npytest", "ex: no", 1)).runs_tests
    assert seen(ran("cd src && pytest", "1 failed in 0.1s", 1)).runs_tests
    assert not seen(ran("pytest || true", "python: No module named pytest")).runs_tests
    assert seen(ran("make", "..\n2 passed in 0.1s")).runs_tests
    assert not seen(ran("make", "cc a.c")).runs_tests
    assert not seen(ran("cat a.toml 2>/dev/null; true", ""), EDIT).files_explored
    assert (
        seen(ran("cat data.py a.py", "cat: data.py: No such file or directory\n1"), EDIT).files_explored == 1
    )
    assert seen(ran("git checkout gone; cat a.py", "error: pathspec 'gone' did not match any file(s)"), EDIT).files_explored == 1  # fmt: skip


def test_a_file_that_was_not_there_may_have_been_made() -> None:
    output = "cat: a.py: No such file or directory"
    made = call(
        "bash", {"command": "cat a.py; echo 1 > a.py"}, json.dumps({"returncode": 0, "output": output})
    )
    assert seen(made, bash("cat a.py")).reads_back


def test_files_that_another_command_names_are_one_pattern_that_may_name_any() -> None:
    assert seen(bash("git ls-files | xargs cat"), bash("cat $(ls)"), EDIT).files_explored == 2
    assert seen(bash("grep -l a . | xargs sed -i s/a/b/"), bash("cat a.py")).reads_back
    assert not seen(EDIT, bash("git show HEAD:a.py")).reads_back
    assert seen(bash("git show HEAD:a.py; cat a.py"), EDIT).files_explored == 1


@pytest.mark.parametrize(
    ("harness", "tool", "arguments", "result", "is_failed"),
    [
        ("claude-code", "Bash", {"command": "echo x; git checkout x; true"}, "error: no such thing", False),
        ("claude-code", "Read", {"file_path": "a.py"}, "Error: no such thing", True),
        ("codex", "write_stdin", {"session_id": 1}, "write_stdin failed: Unknown process id 1", True),
        ("opencode", "edit", {"filePath": "a.py"}, "Could not find oldString in the file.", True),
        ("opencode", "skill", {"name": "x"}, 'Skill "x" not found. Available skills: y', True),
        ("opencode", "read", {"filePath": "a.py"}, "<path>a.py</path>\n1: sh: x: command not found", False),
    ],
)
def test_an_error_is_a_tool_s_own_word_and_not_what_a_shell_or_a_file_shows(
    harness: str, tool: str, arguments: Message, result: str, is_failed: bool
) -> None:
    (found,) = calls_of(call(tool, arguments, result), harness)
    assert found.is_failed is is_failed


@pytest.mark.parametrize(
    "text", ["exit_code = 1\nreturncode: 2", "Traceback (most recent call last)", "Error: malformed"]
)
def test_what_a_file_says_is_no_failure_of_the_command_that_shows_it(text: str) -> None:
    result = json.dumps({"returncode": 0, "output": text})
    (found,) = calls_of(call("bash", {"command": "cat a.py"}, result), "mini-swe-agent")
    assert not found.is_failed
    assert not found.is_malformed


def test_two_spellings_of_a_path_are_one_file() -> None:
    reads = [call("Read", {"file_path": path}) for path in ("/w/src/a.py", "src/a.py", "src/b.py")]
    assert seen(*reads, harness="claude-code").files_explored == 2


def test_a_sub_agent_acts_where_it_was_sent_and_its_end_is_not_the_end() -> None:
    errand = {"prompt": "Repair it for me.", "subagent_type": "general"}
    inner = [{"role": "user", "content": "Repair it for me."}, *call("Edit", {"file_path": "a.py"}), *ANSWER]
    branch = [{**message, "branch": 1} for message in inner]
    sent = flat(call("Agent", errand), call("Read", {"file_path": "a.py"}))
    found = behaviour_of([*sent, *branch], harness="claude-code", is_completed=True)
    assert found.reads_back
    assert found.num_calls == 3
    assert not found.finishes
    assert behaviour_of([*sent, *ANSWER, *branch], harness="claude-code", is_completed=True).finishes


def test_a_call_that_a_compacted_history_keeps_counts_once() -> None:
    kept = [{**message, "branch": 1} for message in bash("pytest", 1)]
    assert seen(bash("pytest", 1), kept).num_calls == 1
    assert seen(bash("pytest", 1), kept).num_failed == 1


def test_table_nine_counts_over_the_right_rollouts() -> None:
    def rollout(**changes: Any) -> Behaviour:
        base: dict[str, Any] = {"num_calls": 4, "num_malformed": 0, "num_failed": 0, "reads_back": False, "runs_tests": True, "files_explored": 2, "finishes": True, "reproduces": False}  # fmt: skip
        return Behaviour(**base | changes)

    table = table9([(rollout(num_failed=1), True), (rollout(num_failed=2), None), (rollout(num_malformed=1, files_explored=4, reads_back=True), False)])  # fmt: skip
    assert (table.n, table.solves_despite_failure, table.runs_tests) == (3, 1.0, 1.0)
    assert table.malformed == pytest.approx(1 / 12)
    assert table.files_explored == pytest.approx(8 / 3)
    assert table.reads_back == pytest.approx(1 / 3)
    assert table9([]).runs_tests is None
    assert pass_rates([[True, False], [True, True], [False, False], []]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))  # fmt: skip


JSON = st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["function", "name", "arguments", "command", "path", "text", "id", "x"]), inner, max_size=4), max_leaves=12)  # fmt: skip
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["assistant", "tool", "user"])},
        optional={"content": JSON, "tool_calls": JSON, "tool_call_id": JSON},
    ),
    max_size=5,
)


@given(MESSAGES, st.sampled_from([*SAME, "other"]))
def test_whatever_a_message_holds_it_is_read_without_a_crash(messages: list[Message], harness: str) -> None:
    assert behaviour_of(messages, harness=harness, is_completed=True).num_calls >= 0
    assert all(action.kind in LETTERS for action in actions(messages, harness))


@pytest.mark.parametrize(
    "piece", ["x ", "'", ">", "-a ", "<<A ", "\\", ";", "\n", "a\n", "$(", "`a", "$(a) ", '"$(']
)
def test_a_command_line_of_a_megabyte_is_read_in_part(piece: str) -> None:
    seen = behaviour_of(flat(bash(piece * 500_000)), harness="mini-swe-agent", is_completed=True)
    assert seen.num_calls == 1


def test_no_command_line_takes_longer_than_its_characters_do() -> None:
    """Both took minutes, and a collapsed policy writes the like."""
    writes = "python;" * 1400 + "python <<E\n" + "open(" * 1900 + "\nE"
    names = " ".join(f"f{i}" for i in range(3000))
    before = time.process_time()
    calls = flat(bash(writes), bash(f"rm {names}"), bash(f"cat {names.replace('f', 'g')}"))
    behaviour_of(calls, harness="mini-swe-agent", is_completed=True)
    assert time.process_time() - before < 10


@given(st.text(max_size=60) | st.text(alphabet="ab '\"<>|&;$()\n\\-/.", max_size=60))
def test_whatever_a_command_line_holds_it_is_at_least_one_act(command: str) -> None:
    found = acts_of(command)
    assert found
    assert all(act.kind in KINDS for act in found)
