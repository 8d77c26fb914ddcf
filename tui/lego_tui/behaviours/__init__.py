"""What agents do, in one vocabulary for every harness (the paper's Table 9).

`tools.py` says what each harness's tools are, `shell.py` what a command line does, `acts.py` turns messages into
calls, `table9.py` calls into the behaviours of rollouts and of many.
"""
