"""What programs do, by their name and their arguments.

Owns the tables of programs, and which of their words are files. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache

from lego_tui.behaviours.git import git_act
from lego_tui.behaviours.interpreters import INTERPRETERS, is_filter, named, program_kind, runs_none
from lego_tui.behaviours.runners import is_question, is_test_run

MAX_TEXT = 20_000
"""Characters of a patch that are read."""
Reading = tuple[str, tuple[str, ...], bool]
"""Kind of act, files, whether they are written as a whole."""

READS = frozenset(
    [
        "cat", "head", "tail", "less", "more", "nl", "bat", "batcat", "sed", "awk", "gawk", "xxd", "od", "strings",
        "tac", "cut", "paste", "column", "fold", "fmt", "expand", "pr", "rev", "sort", "uniq", "jq", "yq", "hexdump",
    ]
)  # fmt: skip
_EXPLORES = frozenset(
    [
        "ls", "find", "grep", "egrep", "fgrep", "rg", "ag", "fd", "tree", "wc", "pwd", "which", "file", "du",
        "stat", "cd", "dir", "locate",
    ]
)  # fmt: skip
_EDITS = frozenset(
    ["patch", "apply_patch", "tee", "ed", "ex", "mv", "rm", "cp", "ln", "touch", "truncate", "dd", "install"]
)
_MAKES = frozenset(["tee", "cp", "mv", "ln", "touch"])
"""What they name may be new."""
_COPIES = frozenset(["cp", "ln", "install"])
"""Only the last file that they name changes."""
_PREFIXES = frozenset(
    [
        "sudo", "time", "env", "nohup", "command", "exec", "builtin", "stdbuf", "nice",
        "do", "then", "else", "elif", "if", "while", "until", "!", "{",
    ]
)  # fmt: skip
_LAUNCHERS = frozenset(["uv", "poetry", "pipenv", "hatch", "pdm", "rye"])
"""`uv run pytest` is `pytest`."""
_TAKES_VALUE = frozenset(["-n", "-c", "-A", "-B", "-C", "-m", "-e", "--lines", "--bytes"])
_PATCH = frozenset(["-i", "-p", "-d"])
_AWK = frozenset(["-v", "-F", "-f"])
_VALUES = {
    "awk": _AWK, "gawk": _AWK, "cut": frozenset(["-d", "-f", "-c", "-b"]), "paste": frozenset(["-d"]),
    "sort": frozenset(["-k", "-t", "-o"]), "column": frozenset(["-s", "-c"]), "fold": frozenset(["-w"]),
    "perl": frozenset[str](), "ruby": frozenset[str](), "jq": frozenset[str](),
}  # fmt: skip
"""Options with a value, of programs that have others than most."""
_SCRIPTED = frozenset(["sed", "awk", "gawk", "jq", "yq"])
"""Their first argument is a script."""
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.M)


def read(program: str, words: Sequence[str], bodies: str) -> Reading:
    """What a command does that begins with `program`; `bodies` are the line's here-documents."""
    rest = words[1:]
    if is_test_run(words):
        return "run" if is_question(words) else "test", _run(words), False
    if program == "git":
        return *git_act(list(rest), patched_paths(bodies)), False
    if program in ("sed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in rest):
        return "edit", files(rest)[1:], False
    if program in _EDITS:
        return "edit", patched_paths(bodies) or _edited(program, rest), program in _MAKES
    if program in READS or is_filter(program, rest):
        return _shown(program, rest)
    if INTERPRETERS.match(program) or words[0].startswith(("./", "../")):
        return _executed(words, bodies)
    if (program, *rest[:1]) in (("go", "run"), ("cargo", "run"), ("npx", *rest[:1])):
        return "execute", files(rest[1:]), False
    return ("explore" if program in _EXPLORES else "run"), (), False


def _edited(program: str, rest: Sequence[str]) -> tuple[str, ...]:
    if program == "patch":  # the file comes before the patch
        return files(rest, _PATCH)[:1]
    return files(rest)[-1:] if program in _COPIES else files(rest)


def _shown(program: str, rest: Sequence[str]) -> Reading:
    """A filter reads the files that it names; one whose script is a file is a program."""
    if program in _SCRIPTED and "-f" in rest:
        return "execute", files(rest, frozenset(["-v", "-F"])), False
    is_scripted = program in _SCRIPTED or program not in READS
    found = files(rest, _VALUES.get(program, _TAKES_VALUE))[is_scripted:]
    return "read" if found else "run", found, False


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


def files(words: Sequence[str], valued: frozenset[str] = _TAKES_VALUE) -> tuple[str, ...]:
    """The words that are neither options nor their values; `valued` are the options that have one."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            skip = word in valued and word != "-e" and not (word == "-n" and _is_script(words))
        else:
            found.append(word.partition("::")[0])
    return tuple(found)


def _executed(words: Sequence[str], bodies: str) -> Reading:
    """A program in the line is what its text does, and names what its text names."""
    if runs_none(words[1:]):
        return "run", (), False
    for text in (bodies, _inline(words)):
        kind = program_kind(text.strip())
        if kind != "execute":
            return kind, named(text), False
    return "execute", _run(words), False


def _inline(words: Sequence[str]) -> str:
    """The program behind `-c` or `-e`; all arguments where there is none."""
    behind = (after for option, after in itertools.pairwise(words) if re.match(r"-\w*[ce]$", option))
    return next(behind, " ".join(words[1:]))


def _run(words: Sequence[str]) -> tuple[str, ...]:
    """What a command runs: its arguments, or itself if it is a path."""
    return files(words if "/" in words[0] else words[1:])


def _is_script(words: Sequence[str]) -> bool:
    """`sed -n 1,9p`: here -n takes no value."""
    after = words[words.index("-n") + 1 :] if "-n" in words else ()
    return bool(after) and not after[0].lstrip("+-").isdigit()
