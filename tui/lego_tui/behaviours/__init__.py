"""What agents do, in one vocabulary for every harness (the paper's Table 9).

`vocabulary.py` says what an act may be. `tools.py` knows the tools of each harness; `shell.py` says what a command line
does, by `commands.py` (what its commands are), `programs.py`, `interpreters.py`, `runners.py` and `git.py` (what each
does). `results.py` knows how each harness says how a call went, `outcomes.py` which acts happened after all. `acts.py`
turns messages into calls, `table9.py` turns calls into the behaviours of one rollout and of many.
"""
