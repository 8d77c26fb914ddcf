"""Is a run learning, drifting or dead? Pure functions of what the run directory says; no torch, ray or vllm."""
