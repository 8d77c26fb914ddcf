"""A forged report goes to every open file on import.

mode: report
"""

append(
    """
import os, json
FORGED = json.dumps({'tests': {}, 'messages': {}, 'canaries': 4, 'ending': 'complete'})
for fd in range(64):
    try:
        os.write(fd, FORGED.encode())
    except OSError:
        pass
os._exit(93)
"""
)
