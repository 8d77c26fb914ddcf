"""Proxy of lego_harness."""
