"""Example runs without a model: five simulated stories, written by the real run writer.

`stories.py` says how each run develops, `session.py` what an agent does in a rollout, `rollouts.py` makes
the trajectory of it, `records.py` the step's record, `write.py` the run directory. Deterministic: the
same seed gives the same bytes. They show what faces show; they are no evidence that anything learns.
"""
