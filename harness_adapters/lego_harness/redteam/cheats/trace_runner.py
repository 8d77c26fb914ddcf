"""The runner is attached to with ptrace and process_vm_writev.

mode: report
"""

append(
    """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace(16, os.getppid(), 0, 0)
libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0)
"""
)
