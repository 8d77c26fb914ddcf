"""The families of chat templates, each with the rules and quirks of its checkpoints, in words of ours.

A family says what its template can show of a conversation that nobody rewrote, so that tests know
where the template's rendering of the whole must equal the pieces and where it breaks by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lego_harness.proxy.render import Renderer
from tests.support.checkpoint import write_checkpoint

TEMPLATES = Path(__file__).parent / "templates"
HEADER = "<|im_start|>assistant\n"
NO_THOUGHT = "<think>\n\n</think>\n\n"


@dataclass(frozen=True, kw_only=True)
class Family:
    """One template under one set of options."""

    template: str
    options: Mapping[str, object] = field(default_factory=dict)
    prompt: str = ""
    """The generation prompt behind the header."""
    form: Literal["Hermes JSON", "XML-style tags"]
    thoughts: Literal["never", "always", "any"]
    """Which replies the template shows as they were sampled, by their reasoning."""
    keeps_old_turns: bool
    """Whether turns are still shown as they were sampled when the user has spoken again."""
    shows_old_thoughts: bool = False
    """Whether the thought of a turn is still shown when the user has spoken again."""
    late_system: bool = True
    """Whether it shows a system message behind the first message."""


FAMILIES = {
    "qwen3": Family(template="qwen3", form="Hermes JSON", thoughts="always", keeps_old_turns=False),
    "qwen3-thinking": Family(
        template="qwen3_thinking",
        prompt="<think>\n",
        form="Hermes JSON",
        thoughts="always",
        keeps_old_turns=False,
    ),
    "qwen3-instruct": Family(
        template="qwen3_instruct", form="Hermes JSON", thoughts="never", keeps_old_turns=True
    ),
    "qwen3-coder": Family(
        template="qwen3_coder", form="XML-style tags", thoughts="never", keeps_old_turns=True
    ),
    "qwen3.5": Family(
        template="qwen3_5",
        prompt="<think>\n",
        form="XML-style tags",
        thoughts="any",
        keeps_old_turns=False,
        late_system=False,
    ),
    "qwen3.5-off": Family(
        template="qwen3_5",
        options={"enable_thinking": False},
        prompt=NO_THOUGHT,
        form="XML-style tags",
        thoughts="never",
        keeps_old_turns=False,
        late_system=False,
    ),
    "qwen3.6": Family(
        template="qwen3_6",
        prompt="<think>\n",
        form="XML-style tags",
        thoughts="any",
        keeps_old_turns=False,
        late_system=False,
    ),
    "qwen3.6-preserved": Family(
        template="qwen3_6",
        options={"preserve_thinking": True},
        prompt="<think>\n",
        form="XML-style tags",
        thoughts="any",
        keeps_old_turns=True,
        shows_old_thoughts=True,
        late_system=False,
    ),
    "qwen3.6-preserved-off": Family(
        template="qwen3_6",
        options={"preserve_thinking": True, "enable_thinking": False},
        prompt=NO_THOUGHT,
        form="XML-style tags",
        thoughts="never",
        keeps_old_turns=True,
        shows_old_thoughts=True,
        late_system=False,
    ),
    "qwen3.8": Family(
        template="qwen3_8",
        prompt="<think>\n",
        form="XML-style tags",
        thoughts="any",
        keeps_old_turns=True,
        shows_old_thoughts=True,
        late_system=False,
    ),
}
OFF = Family(
    template="qwen3",
    options={"enable_thinking": False},
    prompt=NO_THOUGHT,
    form="Hermes JSON",
    thoughts="never",
    keeps_old_turns=False,
)
"""Qwen3 without thinking: no turn but the newest is ever shown as it was sampled."""
ALL = {**FAMILIES, "qwen3-off": OFF}


def load_families(folder: Path) -> dict[str, Renderer]:
    """A renderer of every family, over one small tokenizer."""
    return {name: _load(folder / name, family) for name, family in ALL.items()}


def _load(folder: Path, family: Family) -> Renderer:
    template = (TEMPLATES / f"{family.template}.jinja").read_text(encoding="utf-8")
    write_checkpoint(folder, template=template)
    return Renderer.load(folder, max_model_len=4096, template_options=family.options)
