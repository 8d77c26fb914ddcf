"""Sandbox of lego_harness."""
