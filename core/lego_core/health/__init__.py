"""Is a run learning, drifting or dead? Pure functions of what is in the run directory; no torch, ray or vllm."""
