"""Grading of lego_harness."""
