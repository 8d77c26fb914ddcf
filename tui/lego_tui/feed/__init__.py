"""What a live display reads of run directories: columns that grow with the files.

`tail.py` reads on where the last read ended, `steps.py` and `index.py` hold columns, `run.py` one run,
`fleet.py` a folder of runs, `trajectory.py` one rollout. Lenient where the store's reader is strict: what
a newer release wrote is shown as far as it is understood, and what is broken becomes a complaint.
"""
