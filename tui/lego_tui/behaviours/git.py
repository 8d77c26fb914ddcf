"""What `git` does to files. Pure."""

from __future__ import annotations

_EDITS = frozenset(["apply", "checkout", "restore", "reset", "mv", "rm", "am", "revert", "stash", "clean"])
_EXPLORES = frozenset(["log", "status", "grep", "ls-files", "branch"])
_NAMES_A_PATCH = frozenset(["apply", "am", "stash"])
_HARMLESS = frozenset(
    ["--check", "--stat", "--numstat", "--summary", "--dry-run", "--cached", "--staged", "-b", "list", "show"]
)
"""`git apply --check`, `git stash list`, `git rm --cached`: no file is changed."""


def git_act(rest: list[str], patched: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Kind of act and files of `git REST`; `patched` are those that a patch in the line names. `REV:FILE` stays so."""
    while rest[:1] in (["-C"], ["-c"]):
        rest = rest[2:]
    words = [word for word in rest if not word.startswith("-")]
    verb, named = "".join(words[:1]), tuple(words[1:])
    if verb in _EDITS:
        return ("run", ()) if not _HARMLESS.isdisjoint(rest) else ("edit", patched or _changed(verb, named))
    if verb == "show":
        return "read", tuple(name for name in named if ":" in name)
    if verb in ("diff", "blame"):  # a diff is of changes, not of a file: it names none
        return "read", named[-1:] if verb == "blame" else ()
    return ("explore" if verb in _EXPLORES else "run"), ()


def _changed(verb: str, named: tuple[str, ...]) -> tuple[str, ...]:
    return () if verb in _NAMES_A_PATCH else named
