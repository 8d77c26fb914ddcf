"""The real controller over simulated engines, harnesses and trainers, in virtual time."""
