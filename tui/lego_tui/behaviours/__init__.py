"""What agents do, in one vocabulary for every harness (the paper's Table 9).

`tools.py` knows the tools of each harness, `shell.py` what a command line does, `acts.py` turns messages into
calls, `table9.py` turns calls into the behaviours of one rollout and of many.
"""
