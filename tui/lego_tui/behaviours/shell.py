"""What a command line does: one act for each of its commands.

Owns the reading of shell text, coarse and total: whatever is no shell is one act of kind `run`. Quoting and
here-documents are respected; nothing is expanded. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

MAX_COMMAND = 20_000
"""Characters of one command line that are read."""
KINDS = ("finish", "edit", "test", "execute", "read", "explore", "run")
"""What a command may be, the most telling first. `execute` runs a program of somebody's (an interpreter, a script),
`run` is everything else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One command, or one call of a tool that is none."""

    kind: str
    """One of KINDS."""
    paths: tuple[str, ...] = ()
    """Files it names, where it reads or edits."""


_FINISH = re.compile(r"COMPLETE_TASK_AND_SUBMIT")
_TESTS = re.compile(
    r"^(?:(?:\S*/)?(?:pytest|py\.test|tox|nox|nosetests|jest|vitest|mocha|rspec|phpunit|ctest|runtests\.py)\b"
    r"|(?:\S*/)?python[\d.]*\s+(?:-\S+\s+)*-m\s+(?:pytest|unittest|tox|nose)\b"
    r"|(?:\S*/)?python[\d.]*\s+\S*(?:manage\.py\s+test|runtests\.py|setup\.py\s+test|bin/test)\b"
    r"|(?:npm|yarn|pnpm|bun)\s+(?:run\s+)?test|npx\s+(?:jest|vitest|mocha)|(?:uv|poetry|hatch)\s+run\s+(?:pytest|test)"
    r"|(?:cargo|go|dotnet|mvn|gradle|\./gradlew|bazel|swift|mix|rake|bundle exec)\s+test|make\s+(?:check|test)\S*)"
)
_INTERPRETERS = re.compile(r"^(?:python[\d.]*|node|ruby|perl|php|java|deno|bun|bash|sh|zsh|Rscript|lua)$")
_READS = frozenset(
    [
        "cat", "head", "tail", "less", "more", "nl", "bat", "batcat", "sed", "awk", "xxd", "od", "strings",
        "tac",
    ]
)  # fmt: skip
_EXPLORES = frozenset(
    [
        "ls", "find", "grep", "egrep", "fgrep", "rg", "ag", "fd", "tree", "wc", "pwd", "which", "file", "du",
        "stat", "cd", "dir", "locate",
    ]
)  # fmt: skip
_EDITS = frozenset(["patch", "apply_patch", "tee", "ed", "mv", "rm", "cp", "truncate", "dd", "install"])
_PREFIXES = frozenset(["sudo", "time", "env", "nohup", "command", "exec", "builtin", "stdbuf", "nice"])
_TAKES_VALUE = frozenset(["-n", "-c", "-A", "-B", "-C", "-m", "-e", "--lines", "--bytes"])
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_REDIRECT = re.compile(r"^\d?>{1,2}\|?$|^&>{1,2}$")
_WRITES = re.compile(
    r"write_text|write_bytes|open\([^)\n]{0,200}['\"][wax]b?\+?['\"]|\.write\(|fs\.writeFile"
)
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.M)


def acts_of(command: str) -> tuple[Act, ...]:
    """The commands of a line, in order; at least one."""
    text, bodies = _without_bodies(command[:MAX_COMMAND])
    found = [_act(words, bodies) for words in _commands(text)]
    return tuple(found) or (Act(kind="run"),)


@lru_cache(maxsize=64)
def patched_paths(patch: str) -> tuple[str, ...]:
    """The files a patch names, in unified or in Codex's form."""
    return tuple(dict.fromkeys(path for path in _PATCHED.findall(patch[:MAX_COMMAND]) if path != "/dev/null"))


@lru_cache(maxsize=64)
def _writes(text: str) -> bool:
    """Whether a program writes a file. Remembered, as what a patch names is: each of a line's commands asks."""
    return _WRITES.search(text) is not None


def _without_bodies(command: str) -> tuple[str, str]:
    """The line without its here-documents, and their text."""
    kept: list[str] = []
    bodies: list[str] = []
    ends: list[str] = []
    for line in command.split("\n"):
        if ends:
            if line.strip() == ends[0]:
                ends.pop(0)
            else:
                bodies.append(line)
            continue
        kept.append(line)
        ends += [match[2] for match in _HEREDOC.finditer(line)]
    return "\n".join(kept), "\n".join(bodies)


def _commands(text: str) -> Iterator[list[str]]:
    """Words of each command between `;`, `&&`, `||`, `|`, `&` and line ends."""
    for line in filter(str.strip, text.replace("\\\n", " ").split("\n")):
        words: list[str] = []
        for token in _tokens(line):
            if token and set(token) <= set(";&|()") and token != "&>":
                if words:
                    yield words
                words = []
            else:
                words.append(token)
        if words:
            yield words


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:  # a quote that is never closed: over several lines, or no shell at all
        return line.split()


def _act(words: list[str], bodies: str) -> Act:
    line = " ".join(words)
    if _FINISH.search(line):
        return Act(kind="finish")
    words, written = _redirected(words)
    words = _bare(words)
    if not words:
        return Act(kind="edit", paths=written) if written else Act(kind="run")
    program = PurePosixPath(words[0]).name
    if program in ("submit", "finish") and len(words) == 1:
        return Act(kind="finish")
    if written and program not in ("tee",):
        return Act(kind="edit", paths=written)
    return _by_program(program, words, bodies)


def _by_program(program: str, words: list[str], bodies: str) -> Act:
    rest = words[1:]
    if _TESTS.search(" ".join(words)):
        return Act(kind="test")
    if program == "git":
        return _git(rest, bodies)
    if program in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in rest):
        return Act(kind="edit", paths=_files(rest)[1:])
    if program in _EDITS:
        return Act(kind="edit", paths=patched_paths(bodies) or _files(rest))
    if _INTERPRETERS.match(program) or words[0].startswith(("./", "../")):
        wrote = _writes(bodies) or _writes(" ".join(rest))
        return Act(kind="edit" if wrote else "execute")
    if (program, *rest[:1]) in (("go", "run"), ("cargo", "run"), ("uv", "run"), ("npx", *rest[:1])):
        return Act(kind="execute")
    if program in _READS:
        return Act(kind="read", paths=_files(rest)[program in ("sed", "awk") :])
    return Act(kind="explore" if program in _EXPLORES else "run")


def _git(rest: Sequence[str], bodies: str) -> Act:
    verb = next((word for word in rest if not word.startswith("-")), "")
    if verb in ("apply", "checkout", "restore", "reset", "mv", "rm", "am", "revert"):
        return Act(kind="edit", paths=patched_paths(bodies))
    if verb in ("diff", "show", "blame"):
        return Act(kind="read")  # of changes, not of a file: it names none
    return Act(kind="explore" if verb in ("log", "status", "grep", "ls-files", "branch") else "run")


def _redirected(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words without redirections, and the files written by them."""
    kept: list[str] = []
    written: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        following = words[place + 1] if place + 1 < len(words) else ""
        if word and set(word) <= set("<>&|") and ("<" in word or ">" in word):
            if _REDIRECT.match(word) and following and not re.match(r"/dev/|&|\d$", following):
                written.append(following)
            if kept and kept[-1].isdigit():
                kept.pop()  # the number before `>`
            place += 2
            continue
        kept.append(word)
        place += 1
    return kept, tuple(written)


def _bare(words: list[str]) -> list[str]:
    """The command without what stands before it: assignments, sudo, timeout 60."""
    place = 0
    while place < len(words):
        word = words[place]
        if word in _PREFIXES or re.match(r"[A-Za-z_]\w*=", word):
            place += 1
        elif word == "timeout":
            place += 1
            while place < len(words) and re.match(r"-|\d", words[place]):
                place += 1
        else:
            break
    return words[place:]


def _files(words: Sequence[str]) -> tuple[str, ...]:
    """The words that are neither options nor their values."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            skip = word in _TAKES_VALUE and word != "-e" and not (word == "-n" and _is_script(words))
        else:
            found.append(word)
    return tuple(found)


def _is_script(words: Sequence[str]) -> bool:
    """`sed -n 1,9p`: here -n takes no value."""
    after = words[words.index("-n") + 1 :] if "-n" in words else ()
    return bool(after) and not after[0].lstrip("+-").isdigit()
