"""Dialects of lego_harness."""
