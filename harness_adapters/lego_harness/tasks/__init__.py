"""Tasks of lego_harness."""
