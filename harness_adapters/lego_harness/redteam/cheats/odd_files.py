"""Pipes, devices, sockets and setuid files are left in the workspace.

mode: escape
"""

import socket
import stat

os.mkfifo("pipe.py")
for device in ("random.py", "disk"):
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except OSError:
        pass
socket.socket(socket.AF_UNIX).bind("socket.py")
write("setuid", "#!/bin/sh\n")
os.chmod("setuid", 0o6755)
for path in modules():
    if path.is_file():
        os.chmod(path, 0)
