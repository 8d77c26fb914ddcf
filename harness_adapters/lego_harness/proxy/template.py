"""A checkpoint's own chat template, rendered as the transformers library renders it.

Owns the jinja environment: sandboxed, immutable, with `tojson` unsorted and not HTML-escaped.
Invariant: text in, text out; no tokens here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, cast

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lego_harness.errors import SetupError, UsageError

REFUSALS = (
    jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""What an expression of a template raises when a conversation does not fit it."""


GIVEN = {"messages", "tools", "add_generation_prompt"}
"""What a conversation gives its template, beside the tokenizer's special tokens."""


class ChatTemplate:
    """One compiled template; raises UsageError when it refuses a conversation."""

    def __init__(self, source: str, variables: Mapping[str, object]) -> None:
        self._template = _environment().from_string(source)
        self._variables = dict(variables)

    @classmethod
    def load(cls, model_dir: Path, options: Mapping[str, object]) -> ChatTemplate:
        """Read `chat_template.jinja` or the template in `tokenizer_config.json`; raises SetupError, and
        UsageError for an option that it does not read.

        `options` are the template's own switches, such as `enable_thinking`.
        """
        config = _read_config(model_dir / "tokenizer_config.json")
        path = model_dir / "chat_template.jinja"
        source = _read_source(path) if path.is_file() else config.get("chat_template")
        if not isinstance(source, str):
            raise SetupError(f"{model_dir}: no chat template (chat_template.jinja or tokenizer_config.json)")
        try:
            tokens = {key: config[key] for key in config if key.endswith("_token")}
            _require_read(options, source, model_dir)
            return cls(source, {**tokens, **options})
        except jinja2.TemplateError as error:
            raise SetupError(f"{model_dir}: the chat template does not compile: {error}") from error

    def render(
        self, messages: Sequence[object], tools: Sequence[object], *, add_generation_prompt: bool
    ) -> str:
        """The conversation as text."""
        try:
            return self._template.render(
                messages=messages,
                tools=tools or None,
                add_generation_prompt=add_generation_prompt,
                **self._variables,
            )
        except REFUSALS as error:
            raise UsageError(f"the model's chat template refuses this conversation: {error}") from error


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    filters = cast("dict[str, object]", environment.filters)  # pyright: ignore[reportUnknownMemberType]
    filters["tojson"] = _tojson
    names = cast("dict[str, object]", environment.globals)  # pyright: ignore[reportUnknownMemberType]
    names.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


def _require_read(options: Mapping[str, object], source: str, model_dir: Path) -> None:
    environment = _environment()
    tree = environment.parse(source)
    known = cast("dict[str, object]", environment.globals)  # pyright: ignore[reportUnknownMemberType]
    names = meta.find_undeclared_variables(tree) - known.keys() - GIVEN - _own_names(tree)
    readable = sorted(name for name in names if not name.endswith("_token"))
    if unread := sorted(options.keys() - readable):
        raise UsageError(
            f"{model_dir}: the chat template does not read the option {unread[0]!r}, expected "
            f"{', '.join(readable) or 'none, for it has no switches'}"
        )


def _own_names(tree: nodes.Template) -> set[str]:
    """Names that the template itself gives a value, but for those it only gives a default."""
    set_here = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    asked: list[nodes.Test | nodes.Filter] = [*tree.find_all(nodes.Test), *tree.find_all(nodes.Filter)]
    defaulted = {
        one.node.name
        for one in asked
        if one.name in ("defined", "undefined", "default", "d") and isinstance(one.node, nodes.Name)
    }
    return set_here - defaulted


class _Generation(Extension):
    """`{% generation %}` around what a model writes: it marks text for training and renders it as it is."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it a set)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now(tz=UTC).strftime(form)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SetupError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(config, dict):
        raise SetupError(f"{path}: holds JSON of another kind, expected an object")
    return cast("dict[str, Any]", config)


def _read_source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SetupError(f"{path}: cannot be read: {error}; expected a template in UTF-8") from error
