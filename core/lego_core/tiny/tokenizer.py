"""The tiny policy's tokenizer: a byte-level BPE trained on the spot.

Owns the vocabulary: Qwen3's special tokens, its non-special markers, and one token for each
boilerplate paragraph of the harness, which shortens prompts severalfold. Invariant: any text
round-trips (bytes are the alphabet), and the same inputs give the same ids. Does not know where
the boilerplate comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lego_core.tiny.chat_template import CHAT_TEMPLATE

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
VOCAB_SIZE = 2048


def train_tokenizer(corpus: Iterable[str], boilerplate: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer of exactly `VOCAB_SIZE` entries; unused places are filled with reserved tokens."""
    tokenizer = _byte_level()
    num_added = len(SPECIAL) + len(MARKERS) + len(boilerplate)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - num_added,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return _finish(tokenizer, boilerplate)


def bootstrap_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte: enough to record a harness before the real vocabulary exists."""
    return train_tokenizer([], [])


def _byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return tokenizer


def _finish(tokenizer: Tokenizer, boilerplate: Sequence[str]) -> PreTrainedTokenizerFast:
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens(
        [AddedToken(text, special=False, normalized=False) for text in (*MARKERS, *boilerplate)]
    )
    missing = VOCAB_SIZE - tokenizer.get_vocab_size()
    tokenizer.add_special_tokens(
        [AddedToken(f"<|reserved_{i}|>", special=True, normalized=False) for i in range(missing)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=32_768,
        clean_up_tokenization_spaces=False,
    )
