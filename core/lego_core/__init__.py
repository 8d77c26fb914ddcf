"""The training core: controller, batching, GSPO, trainer, engine, run store.

`types`, `config`, `errors` and `store` import no torch, ray or vllm.
"""
