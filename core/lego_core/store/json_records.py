"""Records to JSON and back, exactly.

Owns the conversion of dataclasses, enums, tuples, dictionaries and numpy arrays. Invariants: the
result is strict JSON, in ASCII (other tools read it); arrays come back bit for bit, as base64 of
their little-endian bytes; floats JSON lacks are the strings `NaN`, `Infinity`, `-Infinity`.
Reading checks every type and names the field that is wrong; unknown fields are refused.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import json
import math
import re
import types
import typing
from enum import Enum
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_ARRAY_TYPES = frozenset({"<i2", "<i4", "<i8", "<f4", "<f8", "|b1", "|u1", "|i1"})
WORD = re.compile(r"[A-Za-z0-9_.:-]{0,24}")
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(record: object) -> bytes:
    """One record as one line of JSON, without the newline."""
    return json.dumps(to_json(record), separators=(",", ":"), allow_nan=False).encode("ascii")


def decode(cls: type[T], data: bytes) -> T:
    """The record `encode` was given. Raises ValueError saying which field is wrong."""
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error
    return cast(T, _from_json(cls, value, ""))


def to_json(value: Any) -> Any:
    """Plain JSON values of a record, for writing or showing."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return _array_to_json(cast(NDArray[Any], value))
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in cast(list[Any], value)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a record holds a {type(value).__name__}, expected JSON values, arrays or records")


def _array_to_json(array: NDArray[Any]) -> dict[str, Any]:
    kind = array.dtype.newbyteorder("<").str
    if kind not in _ARRAY_TYPES:
        raise TypeError(f"an array of {array.dtype} cannot be stored, expected one of {sorted(_ARRAY_TYPES)}")
    data = np.ascontiguousarray(array, dtype=kind).tobytes()
    return {"dtype": kind, "shape": list(array.shape), "data": base64.b64encode(data).decode("ascii")}


def _array_from_json(value: Any, where: str) -> NDArray[Any]:
    if not isinstance(value, dict) or set(cast(dict[str, Any], value)) != {"dtype", "shape", "data"}:
        raise _wrong(where, "an array {dtype, shape, data}", value)
    kind, shape = cast(Any, value["dtype"]), cast(Any, value["shape"])
    if not isinstance(kind, str) or kind not in _ARRAY_TYPES:
        raise _wrong(f"{where}.dtype", f"one of {sorted(_ARRAY_TYPES)}", kind)
    try:
        raw = bytearray(base64.b64decode(cast(Any, value["data"]), validate=True))
        array = np.frombuffer(raw, dtype=kind).reshape([int(n) for n in shape])
    except (ValueError, TypeError, binascii.Error) as error:
        raise ValueError(f"{where}: array data does not fit its shape: {error}") from error
    if list(array.shape) != shape:  # reshape would take -1 as "whatever fits"
        raise _wrong(f"{where}.shape", str(list(array.shape)), shape)
    return array


def _from_json(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        return _union_from_json(arguments, value, where)
    if origin is np.ndarray:
        return _array_from_json(value, where)
    if origin is tuple:
        items = _expect(list, value, where)
        return tuple(_from_json(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if origin is dict:
        table = _expect(dict, value, where)
        return {key: _from_json(arguments[1], item, f"{where}.{_word(key)}") for key, item in table.items()}
    if dataclasses.is_dataclass(kind):
        return _record_from_json(cast(type[Any], kind), value, where)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise _wrong(where, f"one of {[member.value for member in kind]}", value) from error
    return _scalar_from_json(kind, value, where)


def _union_from_json(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and types.NoneType in options:
        return None
    (kind,) = (option for option in options if option is not types.NoneType)
    return _from_json(kind, value, where)


def _scalar_from_json(kind: type[Any], value: Any, where: str) -> Any:
    if kind is float:
        if isinstance(value, str) and value in _NON_FINITE:
            return _NON_FINITE[value]
        if type(value) is int or type(value) is float:
            return float(value)
        raise _wrong(where, "a number", value)
    return _expect(kind, value, where)


def _record_from_json(cls: type[Any], value: Any, where: str) -> Any:
    table = cast(dict[str, Any], _expect(dict, value, where))
    hints = _hints(cls)
    unknown = sorted(set(table) - set(hints))
    if unknown:
        named = shown(unknown[0])
        raise ValueError(f"{where or cls.__name__}: unknown field {named}, expected {sorted(hints)}")
    missing = sorted(name for name in _required(cls) if name not in table)
    if missing:
        raise ValueError(f"{where or cls.__name__}: field {missing[0]!r} is missing")
    return cls(**{name: _from_json(hints[name], item, f"{where}.{name}") for name, item in table.items()})


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@functools.cache
def _required(cls: type[Any]) -> tuple[str, ...]:
    absent = dataclasses.MISSING
    return tuple(
        f.name for f in dataclasses.fields(cls) if f.default is absent and f.default_factory is absent
    )


def _expect(kind: type[Any], value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise _wrong(where, f"a {kind.__name__}", value)
    return value


def _wrong(where: str, expected: str, got: Any) -> ValueError:
    return ValueError(f"{where.lstrip('.') or 'record'}: expected {expected}, got {shown(got)}")


def shown(value: Any) -> str:
    """A value from a file, for an error that somebody may act on: one that could hold a sentence is shown only by
    its type."""
    if isinstance(value, str):
        return repr(value) if WORD.fullmatch(value) else f"a text of {len(value)} characters"
    is_plain = value is None or isinstance(value, bool | int | float)
    return repr(value)[:80] if is_plain else f"a {type(value).__name__}"


def _word(text: str) -> str:
    return text if WORD.fullmatch(text) else "…"
