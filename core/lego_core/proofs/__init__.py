"""Numeric proofs of a recipe before it runs: `python -m lego_core.proofs`. Needs torch, unlike its caller."""
