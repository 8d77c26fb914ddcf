"""Text ↔ token ids for one checkpoint's `tokenizer.json`.

Owns which added tokens are control tokens: those a template writes and a text must never become.
Invariant: `encode(marked)` turns a literal such as `<|im_end|>` inside a marked text into ordinary
byte-pair tokens, while boilerplate lines that are added tokens are used everywhere. Knows no
template.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from lego_harness.errors import SetupError, UsageError

END_OF_TURN = "<|im_end|>"
END_OF_TEXT = "<|endoftext|>"
CONTROL = re.compile(r"<\|[^<>|\s]+\|>|</?(?:tool_call|tool_response|think|tools)>")
TAG = re.compile(r"<[^<>\s]{1,80}>")
"""Form of nearly every control token; found first and looked up, since vocabularies hold thousands."""


class Vocabulary:
    """A tokenizer that tells a template's control tokens from text that only looks like them."""

    def __init__(self, tokenizer: Tokenizer, *, model_vocab_size: int = 0) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one text at a time needs no thread pool
        self._tokenizer = tokenizer
        self.size = max(tokenizer.get_vocab_size(), model_vocab_size)
        """Ids an engine may sample: the model's output rows, which may outnumber the tokens."""
        self.end_of_turn = self._required_id(END_OF_TURN)
        end_of_text = tokenizer.token_to_id(END_OF_TEXT)
        self.stop_ids = (self.end_of_turn,) if end_of_text is None else (self.end_of_turn, end_of_text)
        added = tokenizer.get_added_tokens_decoder().values()
        self._control = sorted({t.content for t in added if t.special or CONTROL.fullmatch(t.content)})
        bare = (text.strip(brackets) for text in self._control for brackets in ("<>", "</>"))
        self._hidden = [*self._control, *bare]
        self._index = {text: i for i, text in enumerate(self._hidden)}
        odd = sorted((text for text in self._control if not TAG.fullmatch(text)), key=len, reverse=True)
        self._suspect = re.compile("|".join([*map(re.escape, odd), TAG.pattern]))
        nonce = secrets.token_hex(16)  # a text cannot forge a mark it cannot guess
        self._mark = f"\ue000{nonce}:%d\ue001"
        self._mark_re = re.compile(f"\ue000{nonce}:(\\d+)\ue001")

    @classmethod
    def load(cls, model_dir: Path) -> Vocabulary:
        """Read `tokenizer.json` (and `config.json` for the output size); raises SetupError."""
        path = model_dir / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # the tokenizers library raises nothing narrower
            raise SetupError(
                f"{path}: no tokenizer to read ({error}); point at a saved checkpoint"
            ) from error
        return cls(tokenizer, model_vocab_size=_model_vocab_size(model_dir / "config.json"))

    def mark(self, value: object) -> object:
        """`value` with every control literal in its strings, keys included, hidden behind a mark.

        A key is hidden too when it would become a literal in the brackets that templates may put
        around it (`think`). Raises UsageError for a value nested too deeply.
        """
        try:
            return self._marked(value)
        except RecursionError as error:
            raise UsageError("a message or tool is nested too deeply to be rendered") from error

    def _marked(self, value: object) -> object:
        if isinstance(value, str):
            return self._suspect.sub(self._hide, value)
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {self._marked_key(key): self._marked(item) for key, item in items}
        if isinstance(value, Sequence):
            return [self._marked(item) for item in cast("Sequence[object]", value)]
        return value

    def encode(self, marked: str) -> list[int]:
        """Ids of a text whose untrusted parts went through `mark`."""
        ids: list[int] = []
        for i, piece in enumerate(self._mark_re.split(marked)):
            if i % 2:
                ids += self._encode_plain(self._hidden[int(piece)])
            elif piece:
                ids += self._encode_text(piece)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens included; bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def _hide(self, match: re.Match[str]) -> str:
        index = self._index.get(match.group())
        return match.group() if index is None else self._mark % index

    def _marked_key(self, key: object) -> object:
        index = self._index.get(key) if isinstance(key, str) else None
        return self._marked(key) if index is None else self._mark % index

    def _encode_text(self, text: str) -> list[int]:
        """Ids of a text, without the offsets that `Tokenizer.encode` finds at twice the cost."""
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return encoding.ids

    def _encode_plain(self, text: str) -> list[int]:
        """Ids of a text with no look at added tokens."""
        model, words = self._tokenizer.model, [text]
        if self._tokenizer.normalizer is not None:
            words = [self._tokenizer.normalizer.normalize_str(text)]
        if self._tokenizer.pre_tokenizer is not None:
            words = [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(words[0])]
        return [token.id for word in words for token in model.tokenize(word)]

    def _required_id(self, text: str) -> int:
        token = self._tokenizer.token_to_id(text)
        if token is None:
            raise SetupError(
                f"the tokenizer has no {text} token; only chat checkpoints of Qwen's form are supported"
            )
        return token


def _model_vocab_size(path: Path) -> int:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return 0  # a bare tokenizer directory: its own size is all there is to know
    sizes = (part.get("vocab_size") for part in (_table(config), _table(_table(config).get("text_config"))))
    return next((size for size in sizes if isinstance(size, int)), 0)


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
