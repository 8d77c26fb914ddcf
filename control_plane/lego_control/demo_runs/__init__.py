"""Example runs without a model: five simulated stories, written by the real run writer.

`stories.py` says how each run develops, `session.py` what an agent does in a rollout, `rollouts.py` makes its
trajectory, `records.py` the record of a step, `write.py` the run directory. Deterministic: the same seed
gives the same bytes. They show what faces can display; they are no evidence that anything learns.
"""
