"""The bubblewrap command line that confines one command: a pure function of host and sandbox.

Owns what is visible inside: the host's /usr and the running Python's tree read-only, a small /etc,
own /proc and /dev, the sandbox's own /workspace, /tmp and /home/agent. Everything else of the host is
absent. As root the command gets a host uid of its own and no capability; otherwise it runs as uid
1000 of a user namespace, as bwrap's own process 1 inside does. That one keeps the first three files it is
given, and whoever has its uid may open them by /proc: input and output go past it. Starts nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_harness.sandbox.base import PROXY_SOCKET, WORKSPACE, Limits, Mount

HOME = "/home/agent"
USER_ID = 1000
"""Uid inside where the host side is unprivileged."""
_ETC_OF_HOST = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives")
_PACKAGES_OF_OTHERS = ("lib/python3*/*-packages", "local/lib/python3*/*-packages")
_NPROC_PER_NAMESPACE = (5, 14)
"""First kernel that counts RLIMIT_NPROC per user namespace."""
_PAST_PROCESS_1 = 'exec 9<"$0" 3<&0 4>&1 </dev/null >/dev/null && exec bwrap --seccomp 9 "$@"'
_TAKEN_UP = 'exec "$@" <&3 >&4 3<&- 4>&-'


@dataclass(frozen=True, kw_only=True, slots=True)
class Confinement:
    """One sandbox, as far as its command line depends on it."""

    folder: Path
    """Host folder with etc, workspace, tmp and home."""
    limits: Limits
    mounts: tuple[Mount, ...]
    socket: Path | None
    """Proxy socket to show inside."""
    host_uid: int | None
    """Uid of its own when started by root; None in a user namespace."""
    seccomp: Path
    """Compiled filter that refuses new namespaces, mounts and kernel keys."""


def confined(sandbox: Confinement, *, env: Mapping[str, str] | None, cwd: str) -> list[str]:
    """The argv to put before a command."""
    return [
        *("/bin/sh", "-c", _PAST_PROCESS_1, str(sandbox.seccomp)),
        *_namespaces(sandbox),
        *_root_filesystem(sandbox),
        *_environment(env or {}, cwd),
        "--",
        *_credentials(sandbox),
        *_limits(sandbox),
        *("sh", "-c", _TAKEN_UP, "sh"),
    ]


def python_path() -> str:
    """PATH inside: the running interpreter's own Python first."""
    own = "" if _is_system(Path(sys.base_prefix)) else f"{sys.base_prefix}/bin:"
    return f"{own}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def _namespaces(sandbox: Confinement) -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid", "--unshare-net")
    yield from ("--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--cap-drop", "ALL")
    if sandbox.host_uid is None:
        yield from ("--unshare-user", "--uid", str(USER_ID), "--gid", str(USER_ID))
    else:  # only until setpriv has changed the user; the folder to start in may be closed to others
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_DAC_READ_SEARCH"):
            yield from ("--cap-add", capability)


def _root_filesystem(sandbox: Confinement) -> Iterator[str]:
    yield from (*_parents("/etc/passwd"), *_system())
    for name in ("passwd", "group", "hosts", "nsswitch.conf"):
        yield from ("--ro-bind", str(sandbox.folder / "etc" / name), f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--size", str(sandbox.limits.disk_mb * 2**20))
    yield from ("--perms", "1777", "--tmpfs", "/dev/shm")
    for name, target in (("workspace", WORKSPACE), ("tmp", "/tmp"), ("home", HOME)):
        yield from (*_parents(target), "--bind", str(sandbox.folder / name), target)
    for mount in sandbox.mounts:
        yield from (*_parents(mount.target), "--ro-bind", str(mount.source), mount.target)
    if sandbox.socket is not None:
        yield from (*_parents(PROXY_SOCKET), "--bind", str(sandbox.socket), PROXY_SOCKET)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        top = Path("/", name)
        if top.is_symlink():
            yield from ("--symlink", str(top.readlink()), str(top))
        elif top.is_dir():
            yield from ("--ro-bind", str(top), str(top))
    for name in _ETC_OF_HOST:
        if Path("/etc", name).exists():
            yield from ("--ro-bind", f"/etc/{name}", f"/etc/{name}")
    prefix = Path(sys.base_prefix)
    if not _is_system(prefix):
        yield from (*_parents(str(prefix)), "--ro-bind", str(prefix), str(prefix))
        yield from _without_packages(prefix)


def _without_packages(prefix: Path) -> Iterator[str]:
    """Whatever the user installed into this Python stays outside: same packages on every host. So do those of the
    host's other Pythons, which may hold the release of a project that has the fix."""
    own = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    others = (path for pattern in _PACKAGES_OF_OTHERS for path in sorted(Path("/usr").glob(pattern)))
    for packages in (own, *others):
        if packages.is_dir() and not packages.is_symlink():
            yield from ("--tmpfs", str(packages), "--remount-ro", str(packages))


def _parents(target: str) -> Iterator[str]:
    """Parents that anybody may enter: bwrap may make them private."""
    for parent in reversed(PurePosixPath(target).parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))


def _environment(env: Mapping[str, str], cwd: str) -> Iterator[str]:
    yield "--clearenv"
    basics = {"PATH": python_path(), "HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TERM": "dumb"}
    for name, value in {**basics, **env}.items():
        yield from ("--setenv", name, value)
    yield from ("--chdir", cwd)


def _credentials(sandbox: Confinement) -> Sequence[str]:
    if sandbox.host_uid is None:
        return ()
    uid = sandbox.host_uid
    drop = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *drop, "--")


def _limits(sandbox: Confinement) -> Iterator[str]:
    limits = sandbox.limits
    yield from (
        "prlimit",
        "--core=0",
        f"--fsize={limits.disk_mb * 2**20}",
        f"--data={limits.memory_mb * 2**20}",
    )
    if sandbox.host_uid is not None or counts_processes_per_namespace():
        yield f"--nproc={limits.pids}"
    yield "--"


def counts_processes_per_namespace() -> bool:
    """Whether a process limit set inside a user namespace leaves the user's other processes out."""
    release = os.uname().release.split(".")
    return tuple(int(part) for part in release[:2] if part.isdigit()) >= _NPROC_PER_NAMESPACE


def _is_system(prefix: Path) -> bool:
    return prefix.is_relative_to("/usr")


def missing_programs() -> list[str]:
    """Host programs that the command line needs and that are not installed."""
    needed = ["bwrap", "prlimit"] + (["setpriv"] if os.getuid() == 0 else [])
    return [name for name in needed if shutil.which(name) is None]
