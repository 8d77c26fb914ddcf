"""The tiny policy: a small sparse-MoE Qwen3 built on the spot, so that a run needs no download.

    harness ──recording──► boilerplate, episode form ──► tokenizer ─┐
    tasks.synth ──demonstrations──────────────────────► warm-up ───► checkpoint folder

Its warm-up teaches the form of an episode and to read the instruction, but leaves the decision in
doubt; that doubt is what reinforcement learning removes. `build.build` is the entry.
"""
