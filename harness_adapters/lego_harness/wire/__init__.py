"""Recorded harness traffic: its format, how it is replayed, how it is recorded."""
