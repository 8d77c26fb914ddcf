"""Objectives and divergences as pure functions of tensors."""
