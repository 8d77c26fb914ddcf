"""The training core: controller, batching, GSPO, trainer, engine, run store.

`types`, `config`, `errors`, `store` and `metrics` import no torch, ray or vllm.
"""
