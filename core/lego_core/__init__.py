"""The training core: controller, batching, GSPO, trainer, engine, run store.

`types`, `config`, `recipe_file`, `errors`, `store` and `health` import no torch, ray or vllm.
"""
