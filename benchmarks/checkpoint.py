"""A tokenizer of realistic size and a chat template on disk, made once and kept in the cache.

Byte-level BPE of 32,000 tokens in Qwen's form, trained on Python's own standard library, so that a text
has as many tokens as with a real checkpoint and costs as much to encode. No weights.
"""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from lego_harness.cache import cache_folder

VOCAB_SIZE = 32_000
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEMPLATE = Path(__file__).parents[1] / "tests" / "support" / "templates" / "qwen3.jinja"


def cache() -> Path:
    """Where the benchmarks keep what takes long to make."""
    folder = cache_folder() / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def checkpoint() -> Path:
    """`tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` in a folder."""
    folder = cache() / f"tokenizer-{VOCAB_SIZE}-{sys.version_info[0]}.{sys.version_info[1]}"
    if not folder.is_dir():
        unfinished = Path(tempfile.mkdtemp(dir=cache()))
        _train().save(str(unfinished / "tokenizer.json"))
        (unfinished / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
        unfinished.rename(folder)
    shutil.copyfile(TEMPLATE, folder / "chat_template.jinja")
    return folder


def library() -> Iterator[str]:
    """Text that looks like what tools give back: the modules of the standard library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        yield path.read_text(encoding="utf-8", errors="replace")


def _train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(WORDS), behavior="isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(SPECIAL) - len(MARKERS),
        show_progress=False,
        special_tokens=[],
        initial_alphabet=alphabet,
    )
    tokenizer.train_from_iterator(library(), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKERS])
    return tokenizer
