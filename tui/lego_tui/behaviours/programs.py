"""What programs do, by their name and their arguments.

Owns the tables of programs, and which of their words are files. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

MAX_TEXT = 20_000
"""Characters of a patch that are read."""
Reading = tuple[str, tuple[str, ...], bool]
"""Kind of act, files, whether they are written as a whole."""

_PYTHON = r"(?:\S*/)?python[\d.]*\s+(?:-\S+\s+)*"
_TESTS = re.compile(
    r"^(?:(?:\S*/)?(?:pytest|py\.test|tox|nox|nosetests|nose2|jest|vitest|mocha|rspec|phpunit|ctest|runtests\.py)\b"
    r"|" + _PYTHON + r"-m\s+(?:pytest|unittest|tox|nox|nose2?|doctest|coverage\s+run\s+(?:-\S+\s+)*-m)\b"
    r"|(?:\S*/)?coverage\s+run\s+(?:-\S+\s+)*-m\b"
    r"|" + _PYTHON + r"(?:\S*manage\.py\s+test|\S*runtests\.py|setup\.py\s+test|\S*bin/test)\b"
    r"|(?:(?:ba|z|da)?sh\s+(?:-\S+\s+)*|" + _PYTHON + r")?(?:\S*/)?(?:run[-_]?)?(?:all[-_]?|unit[-_]?)?tests?\.(?:sh|bash|py)\b"
    r"|" + _PYTHON + r"(?:\S*/)?test_\w+\.py\b"
    r"|(?:npm|yarn|pnpm|bun)\s+(?:-\S+\s+)*(?:run\s+)?test|npm\s+t\b|npx\s+(?:jest|vitest|mocha)|node\s+--test"
    r"|(?:cargo|go|dotnet|mvn|\./mvnw|gradle|\./gradlew|bazel|swift|mix|rake|sbt|zig|deno)\s+(?:-\S+\s+)*test"
    r"|make\s+(?:\S+\s+)*?(?:check|test)\S*)"
)  # fmt: skip
_INTERPRETERS = re.compile(
    r"^(?:python[\d.]*|node|ruby|perl|php|java|deno|bun|bash|sh|zsh|dash|Rscript|lua)$"
)
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
_PREFIXES = frozenset(
    [
        "sudo", "time", "env", "nohup", "command", "exec", "builtin", "stdbuf", "nice",
        "do", "then", "else", "elif", "if", "while", "until", "!", "{",
    ]
)  # fmt: skip
_LAUNCHERS = frozenset(["uv", "poetry", "pipenv", "hatch", "pdm", "rye"])
"""`uv run pytest` is `pytest`."""
_TAKES_VALUE = frozenset(["-n", "-c", "-A", "-B", "-C", "-m", "-e", "--lines", "--bytes"])
_WRITES = re.compile(
    r"write_text|write_bytes|open\([^)\n]{0,200}['\"][wax]b?\+?['\"]|(?<!stdout)(?<!stderr)\.write\(|fs\.writeFile"
)
_NAMED = re.compile(r"['\"]([\w./-]{1,200}\.\w{1,6})['\"]")
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.M)


def read(program: str, words: Sequence[str], bodies: str) -> Reading:
    """What a command does that begins with `program`; `bodies` are the line's here-documents."""
    rest = words[1:]
    if _TESTS.match(" ".join(words)):
        return "test", _run(words), False
    if program == "git":
        return _git(rest, bodies)
    if program in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in rest):
        return "edit", files(rest)[1:], False
    if program in _EDITS:
        return "edit", patched_paths(bodies) or files(rest), program in ("tee", "cp", "mv")
    if _INTERPRETERS.match(program) or words[0].startswith(("./", "../")):
        return _executed(words, bodies)
    if (program, *rest[:1]) in (("go", "run"), ("cargo", "run"), ("npx", *rest[:1])):
        return "execute", files(rest[1:]), False
    if program in _READS:
        named = files(rest)[program in ("sed", "awk") :]
        return "read" if named else "run", named, False  # a filter if it names no file
    return ("explore" if program in _EXPLORES else "run"), (), False


@lru_cache(maxsize=64)
def patched_paths(patch: str) -> tuple[str, ...]:
    """The files a patch names, in unified or in Codex's form."""
    return tuple(dict.fromkeys(path for path in _PATCHED.findall(patch[:MAX_TEXT]) if path != "/dev/null"))


def bare(words: list[str]) -> list[str]:
    """The command without its prefixes: assignments, sudo, `timeout 60`, `uv run`, `xargs -n 1`, `do`."""
    place = 0
    while place < len(words):
        word, following = words[place], words[place + 1 : place + 2]
        if word in _PREFIXES or re.match(r"[A-Za-z_]\w*=", word):
            place += 1
        elif word in _LAUNCHERS and following == ["run"]:
            place += 2
        elif word in ("timeout", "xargs"):
            place += 1
            while place < len(words) and re.match(r"-|\d|\{\}", words[place]):
                place += 1
        else:
            break
    return words[place:]


def files(words: Sequence[str]) -> tuple[str, ...]:
    """The words that are neither options nor their values."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            skip = word in _TAKES_VALUE and word != "-e" and not (word == "-n" and _is_script(words))
        else:
            found.append(word.partition("::")[0])
    return tuple(found)


def _executed(words: Sequence[str], bodies: str) -> Reading:
    """A program that writes files edits those that its text names."""
    for text in (bodies, " ".join(words[1:])):
        if _writes(text):
            return "edit", _named(text), False
    return "execute", _run(words), False


def _run(words: Sequence[str]) -> tuple[str, ...]:
    """What a command runs: its arguments, or itself if it is a path."""
    return files(words if "/" in words[0] else words[1:])


def _git(rest: Sequence[str], bodies: str) -> Reading:
    verb = next((word for word in rest if not word.startswith("-")), "")
    named = tuple(word for word in rest if "." in word and not word.startswith("-"))
    if verb in ("apply", "checkout", "restore", "reset", "mv", "rm", "am", "revert", "stash"):
        return "edit", patched_paths(bodies) or named, False
    if verb in ("diff", "show", "blame"):
        return "read", (), False  # of changes, not of a file: it names none
    return ("explore" if verb in ("log", "status", "grep", "ls-files", "branch") else "run"), (), False


@lru_cache(maxsize=64)
def _writes(text: str) -> bool:
    """Whether a program writes a file. Remembered, as what it names is: each of a line's commands asks."""
    return _WRITES.search(text) is not None


@lru_cache(maxsize=64)
def _named(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_NAMED.findall(text)))


def _is_script(words: Sequence[str]) -> bool:
    """`sed -n 1,9p`: here -n takes no value."""
    after = words[words.index("-n") + 1 :] if "-n" in words else ()
    return bool(after) and not after[0].lstrip("+-").isdigit()
