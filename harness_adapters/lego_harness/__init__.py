"""Rollouts in unmodified harnesses: adapters, capture proxy, sandboxes, grading, tasks.

Knows nothing of reinforcement learning and imports no torch, ray or vllm.
"""
