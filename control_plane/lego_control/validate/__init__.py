"""Proves a run before it starts: each check named, timed, independent, with evidence and a remedy."""
