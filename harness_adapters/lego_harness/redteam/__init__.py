"""Scripted cheating agents, run through the real pipeline: what they get is what a policy could get."""
