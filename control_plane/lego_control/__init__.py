"""The faces that operate a run: the `lego` command. Imports no torch, ray or vllm."""
