"""A verdict is written to the runner's own output through /proc.

mode: report
"""

append(
    """
import os
for fd in (0, 1, 2, 3, 4, 5):
    for pid in (os.getppid(), 1):
        try:
            with open(f'/proc/{pid}/fd/{fd}', 'w') as file:
                file.write('lego-runner ready\\n{}\\n')
        except OSError:
            pass
"""
)
