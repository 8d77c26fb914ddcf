"""The OpenHands SDK's file editor on the files of a sandbox.

Each call fetches the one path it is about, lays it out below a private folder of the host, runs the SDK's
editor on that, and sends back what it wrote. Invariant: the editor opens nothing outside its mirror, which
holds plain files and folders only, and what it says names paths as they are inside.
"""

# pyright: basic, reportMissingImports=false
# The SDK is installed in the harness's Python, not in ours.

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from openhands.sdk.utils.path import is_host_absolute_path
from openhands.tools.file_editor.editor import FileEditor
from openhands.tools.file_editor.exceptions import EditorToolParameterInvalidError, ToolError
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

_EXEC_LIMIT_S = 90
_MAX_ANSWER_BYTES = 32 * 2**20


def _plain(name: str) -> str:
    """A name, or a name in a folder, that stays below where it is put."""
    parts = name.split("/")
    if len(parts) > 2 or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is no name of a file")
    return name


def _decoded(data: object) -> bytes | None:
    return None if data is None else base64.b64decode(str(data), validate=True)


class Found(BaseModel, extra="forbid"):
    """What lies at a path, as `inner_files.py` tells it; untrusted."""

    kind: Literal["missing", "file", "folder", "other"] = Field(alias="is")
    size: int = Field(default=0, ge=0, le=2**40)
    mtime_ns: int = Field(default=0, ge=0, lt=2**63)
    data: Annotated[bytes | None, BeforeValidator(_decoded)] = None
    entries: list[tuple[Annotated[str, AfterValidator(_plain)], bool]] = Field(default=[], max_length=5000)


class _Refused(BaseModel, extra="forbid"):
    errno: int
    why: str
    path: str


class SandboxFiles:
    """The files of a sandbox, by a program inside it; raises OSError as the system inside would."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = ["timeout", "--signal=KILL", str(_EXEC_LIMIT_S), *argv]

    def look(self, path: str) -> Found:
        try:
            return Found.model_validate_json(self._ask({"look": path}))
        except ValidationError as error:
            raise _silence(path) from error

    def put(self, path: str, data: bytes) -> None:
        if self._ask({"put": path, "data": base64.b64encode(data).decode()}) != b"{}":
            raise _silence(path)

    def _ask(self, request: dict[str, str]) -> bytes:
        with subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin
            assert process.stdout
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(json.dumps(request).encode())
            said = process.stdout.read(_MAX_ANSWER_BYTES)
        with contextlib.suppress(ValidationError):
            refused = _Refused.model_validate_json(said)
            raise OSError(refused.errno, refused.why, *([refused.path] if refused.path else []))
        return said


class MirrorEditor(FileEditor):
    """The SDK's editor; every call works on a fresh mirror of one path."""

    def __init__(self, files: SandboxFiles, *, folder: Path, workspace: str) -> None:
        self._files = files
        self._mirror = str(folder / f"mirror-{secrets.token_hex(8)}")
        self._workspace = workspace
        super().__init__(workspace_root=self._mirror + workspace)

    def __call__(self, *, command: Any, path: str, **arguments: Any) -> Any:
        inside = _clamped(PurePosixPath(self._workspace, path))
        found = self._files.look(inside)
        if not path.startswith("/"):
            raise _not_absolute(path, inside if found.kind != "missing" else None)
        self._lay_out(inside, found)
        try:
            observation = super().__call__(command=command, path=self._mirror + inside, **arguments)
        except ToolError as error:
            error.message = self._as_inside(error.message)
            raise
        content = [self._part_as_inside(part) for part in observation.content]
        return observation.model_copy(update={"content": content, "path": inside})

    def _atomic_write(self, path: Path, file_text: str, encoding: str) -> None:
        """In the mirror first, which settles the encoding."""
        super()._atomic_write(path, file_text, encoding)
        self._files.put(self._as_inside(str(path)), path.read_bytes())

    def _list_directory_for_view(self, path: Path) -> list[str]:
        """Before the SDK cuts the list, so that it is cut where it would be inside."""
        return [self._as_inside(line) for line in super()._list_directory_for_view(path)]

    def _lay_out(self, inside: str, found: Found) -> None:
        shutil.rmtree(self._mirror, ignore_errors=True)
        Path(self._mirror).mkdir()
        path = Path(self._mirror + inside)
        if found.kind == "other":
            raise OSError(errno.EINVAL, "Neither a regular file nor a directory", inside)
        path.parent.mkdir(parents=True, exist_ok=True)  # where it is missing inside, sending will fail
        if found.kind == "folder":
            path.mkdir(exist_ok=True)
            for name, is_folder in found.entries:
                (path / name).mkdir(parents=True, exist_ok=True) if is_folder else (path / name).touch()
        if found.kind == "file":
            path.write_bytes(found.data or b"")
            if found.data is None:  # too large: only its size is known, for which the SDK refuses it
                os.truncate(path, found.size)
            os.utime(path, ns=(found.mtime_ns, found.mtime_ns))

    def _part_as_inside(self, part: Any) -> Any:
        text = getattr(part, "text", None)
        return part if text is None else part.model_copy(update={"text": self._as_inside(text)})

    def _as_inside(self, text: str) -> str:
        return text.replace(self._mirror, "")


def _clamped(path: PurePosixPath) -> str:
    """The same path without the `..` that would lead above the root, where inside they lead nowhere."""
    kept: list[str] = []
    depth = 0
    for part in path.parts[1:]:
        depth += -1 if part == ".." else 1
        if depth < 0:
            depth = 0
        else:
            kept.append(part)
    return "/" + "/".join(kept)


def _not_absolute(path: str, suggestion: str | None) -> ToolError:
    """As the SDK says it, without looking at the host."""
    shown = str(PurePosixPath(path))
    if is_host_absolute_path(shown):  # "~/x", which the SDK takes for absolute and then does not expand
        hint = f"The path {shown} does not exist. Please provide a valid path."
    else:
        hint = "The path should be an absolute path."
        hint += f" Maybe you meant {suggestion}?" if suggestion else ""
    return EditorToolParameterInvalidError("path", shown, hint)


def _silence(path: str) -> OSError:
    return OSError(errno.EIO, "The sandbox did not answer", path)
