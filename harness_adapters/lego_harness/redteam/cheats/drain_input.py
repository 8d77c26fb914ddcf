"""The runner's input is read from under it.

mode: report
"""

append(
    """
import os
for path in ('/dev/stdin', f'/proc/{os.getppid()}/fd/0'):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.read(fd, 65536)
    except OSError:
        pass
"""
)
