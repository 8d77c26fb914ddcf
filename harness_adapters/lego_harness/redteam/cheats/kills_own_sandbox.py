"""The agent kills all it can in its own sandbox.

mode: ending
"""

import signal

os.kill(-1, signal.SIGKILL)
