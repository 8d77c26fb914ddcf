"""What the capture proxy costs, measured beside other programs; `python -m benchmarks.run` does it all."""
