"""A small system-call filter for bubblewrap: no new namespaces, no mounts, no kernel keys.

Owns the compiled classic-BPF program, for x86-64 and aarch64 in one. Invariant: calls of another
architecture kill the process, refused calls fail with EPERM, everything else is allowed; `clone3`
answers ENOSYS, so that the C library falls back to `clone`, whose flags can be read.
"""

from __future__ import annotations

import struct

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}."""
_X32_BIT = 0x40000000
_CLONE3 = 435
_NEWER = (428, 429, 430, 431, 432, 433, 442, 425, 426, 427)
"""open_tree … mount_setattr and io_uring_*: same numbers everywhere."""
_X86_64 = 0xC000003E
_AARCH64 = 0xC00000B7
_REFUSED = {
    # mount umount2 pivot_root swapon swapoff setns unshare-flags ptrace keyctl add_key request_key
    # bpf perf_event_open userfaultfd init_module finit_module delete_module kexec_load
    _X86_64: (165, 166, 155, 167, 168, 308, 101, 250, 248, 249, 321, 298, 323, 175, 313, 176, 246),
    _AARCH64: (40, 39, 41, 224, 225, 268, 117, 219, 217, 218, 280, 241, 282, 105, 273, 106, 104),
}
_CLONE_UNSHARE = {_X86_64: (56, 272), _AARCH64: (220, 97)}


def compile_filter() -> bytes:
    """The program as `struct sock_filter[]`, as `bwrap --seccomp` reads it."""
    program = _op(_LOAD, 4)
    for arch in (_X86_64, _AARCH64):
        body = _body(arch)
        program += _op(_JUMP_EQ, arch, 0, len(body) // 8) + body
    return program + _op(_RETURN, _KILL)


def _body(arch: int) -> bytes:
    code = _op(_LOAD, 0)
    if arch == _X86_64:
        code += _op(_JUMP_GE, _X32_BIT, 0, 1) + _op(_RETURN, _EPERM)
    code += _op(_JUMP_EQ, _CLONE3, 0, 1) + _op(_RETURN, _ENOSYS)
    for number in (*_REFUSED[arch], *_NEWER):
        code += _op(_JUMP_EQ, number, 0, 1) + _op(_RETURN, _EPERM)
    clone, unshare = _CLONE_UNSHARE[arch]
    code += _op(_JUMP_EQ, clone, 1, 0) + _op(_JUMP_EQ, unshare, 0, 3)
    code += _op(_LOAD, 16) + _op(_JUMP_SET, _NEW_NAMESPACES, 0, 1) + _op(_RETURN, _EPERM)
    return code + _op(_RETURN, _ALLOW)


def _op(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, k)
