"""TRL's optimizer steps on the same work: `python step_trl.py WORK STEPS ROWS THREADS`; prints what `step_lego` does.

Its GRPOTrainer as it is, with importance sampling by sequence; only what it would generate is given. A step is from
its callback before the first micro-batch to the one behind the optimizer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.peak import Peak
from benchmarks.step_work import CLIP_HIGH, CLIP_LOW, LEARNING_RATE


class Given(GRPOTrainer):
    """Its rollouts are there already."""

    rollouts: list[dict[str, Any]]

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        return self.rollouts[self._step % len(self.rollouts)]


class Clock(TrainerCallback):
    """Seconds of each step, and the norms that were logged."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.norms: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._start = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.perf_counter() - self._start)

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        if "grad_norm" in logs:
            self.norms.append(float(logs["grad_norm"]))


def main() -> None:
    work, (steps, rows, threads) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    torch.set_num_threads(threads)
    batches = micro_batches(work, rows)
    clock = Clock()
    config = GRPOConfig(
        output_dir=str(work / "trl"),
        importance_sampling_level="sequence",
        loss_type="grpo",
        beta=0.0,
        epsilon=CLIP_LOW,
        epsilon_high=CLIP_HIGH,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=len(batches),
        num_generations=2,
        max_steps=steps + 1,
        bf16=False,
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Given(
        model=AutoModelForCausalLM.from_pretrained(
            work / "model", dtype=torch.float32, experts_implementation="grouped_mm"
        ),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["."] * 64}),
        processing_class=tokenizer(),
        callbacks=[clock],
    )
    trainer.rollouts = batches
    peak = Peak()
    trainer.train()
    found = {"seconds": clock.seconds[1:], "peak": peak.bytes(), "norm": clock.norms[0]}
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def micro_batches(work: Path, rows: int) -> list[dict[str, Any]]:
    """As TRL pads them: prompts on the left, completions on the right; those of similar length together."""
    with np.load(work / "rollouts.npz") as stored:
        ids, lengths, prompts, advantages = (
            stored[name] for name in ("ids", "lengths", "prompts", "advantages")
        )
    return [
        micro_batch(ids[at], lengths[at], prompts[at], advantages[at])
        for at in np.split(np.arange(len(ids)), len(ids) // rows)
    ]


def micro_batch(ids: Any, lengths: Any, prompts: Any, advantages: Any) -> dict[str, Any]:
    width, rest = prompts.max(), (lengths - prompts).max()
    prompt_mask = np.arange(width) >= width - prompts[:, None]
    completion_mask = np.arange(rest) < (lengths - prompts)[:, None]
    prompt_ids, completion_ids = (
        np.zeros_like(prompt_mask, np.int64),
        np.zeros_like(completion_mask, np.int64),
    )
    for i, (row, length, prompt) in enumerate(zip(ids, lengths, prompts, strict=True)):
        prompt_ids[i, prompt_mask[i]] = row[:prompt]
        completion_ids[i, completion_mask[i]] = row[prompt:length]
    tensors = {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask.astype(np.int64),
        "completion_ids": completion_ids,
        "completion_mask": completion_mask.astype(np.int64),
        "advantages": advantages.astype(np.float32),
        "num_items_in_batch": completion_mask.sum(),
    }
    return {name: torch.as_tensor(value) for name, value in tensors.items()}


def tokenizer() -> PreTrainedTokenizerFast:
    """It wants one; nothing is tokenised."""
    words = {"[PAD]": 0, "[EOS]": 1, ".": 2}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token=".")),
        pad_token="[PAD]",
        eos_token="[EOS]",
    )


if __name__ == "__main__":
    main()
