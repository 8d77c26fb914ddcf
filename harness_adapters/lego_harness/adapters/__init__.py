"""Adapters of lego_harness."""
