"""The trainer: forward passes with replayed routes, optimizer steps, checkpoints."""
