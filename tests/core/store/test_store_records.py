"""Records survive the store exactly; what is wrong is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.store.json_records import decode, encode
from lego_core.types import StepRecord
from lego_harness.types import Trajectory
from tests.support.runs import step, trajectory

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
arrays = st.one_of(
    [
        hnp.arrays(dtype, shapes)
        for dtype in (
            np.int8,
            np.int16,
            np.int32,
            np.int64,
            np.float32,
            np.float64,
            np.bool_,
            np.uint8,
            ">i4",
        )
    ]
)


@given(arrays)
def test_every_array_comes_back_bit_for_bit(array: np.ndarray[Any, Any]) -> None:
    turn = replace(trajectory().turns[0], routes=array)
    back = decode(Trajectory, encode(trajectory(turns=(turn,)))).turns[0].routes
    assert back is not None
    assert back.shape == array.shape
    assert back.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert back.flags.writeable


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.none()), st.floats())
def test_text_and_numbers_of_a_trajectory_come_back_as_they_were(
    text: str, message: dict[str, Any], seconds: float
) -> None:
    sent = trajectory(error=text, patch=text, messages=(message,), timings_s={text: seconds})
    line = encode(sent)
    back = decode(Trajectory, line)
    assert b"\n" not in line
    assert line.isascii()
    assert (back.error, back.patch, back.messages) == (text, text, (message,))
    assert back.timings_s[text] == seconds or math.isnan(seconds)


def test_the_versions_of_a_turn_that_new_weights_came_inside_come_back() -> None:
    sent = trajectory(sampled=5)
    turn = replace(sent.turns[0], versions=np.array([0, 0, 1, 1, 2], np.int32))
    back = decode(Trajectory, encode(replace(sent, turns=(turn, sent.turns[0]))))
    assert [turn.token_versions.tolist() for turn in back.turns] == [[0, 0, 1, 1, 2], [0] * 5]


BELONGS = {"thread": st.text(), "parent": st.text(), "cause": st.text(), "at": st.integers(0)}
NAMED = {"thread": st.text(), "side_call": st.text(), "masked": st.text()}


@given(st.fixed_dictionaries(BELONGS), st.fixed_dictionaries(NAMED))
def test_where_branches_and_turns_belong_comes_back(belongs: dict[str, Any], named: dict[str, str]) -> None:
    sent = trajectory()
    (branch,), (turn,) = sent.branches, sent.turns
    sent = replace(sent, branches=(replace(branch, **belongs),), turns=(replace(turn, **named),))
    back = decode(Trajectory, encode(sent))
    assert {key: getattr(back.branches[0], key) for key in belongs} == belongs
    assert {key: getattr(back.turns[0], key) for key in named} == named


@given(st.none() | st.floats(), st.floats())
def test_numbers_json_lacks_are_still_strict_json(pearson: float | None, rate: float) -> None:
    line = encode(step(pearson_r=pearson, tokens_per_s=rate))
    json.loads(line, parse_constant=pytest.fail)
    assert repr(decode(StepRecord, line)) == repr(step(pearson_r=pearson, tokens_per_s=rate))


def test_numbers_of_numpy_are_stored_as_plain_numbers() -> None:
    assert decode(StepRecord, encode(step(reward_mean=np.float64(0.5), solved=np.int64(3)))) == step(
        reward_mean=0.5, solved=3
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"step": "1"}, r"step: expected a int, got '1'"),
        ({"step": True}, r"step: expected a int, got True"),
        ({"k3": "fast"}, r"k3: expected a number, got 'fast'"),
        ({"masked": {"x": 1.5}}, r"masked\.x: expected a int, got 1\.5"),
        ({"trained_rollouts": ["a", None]}, r"trained_rollouts\[1\]: expected a str, got None"),
        ({"surprise": 1}, r"StepRecord: unknown field 'surprise'"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], says: str) -> None:
    line = json.dumps({**json.loads(encode(step())), **change}).encode()
    with pytest.raises(ValueError, match=says):
        decode(StepRecord, line)


def test_a_missing_field_is_named() -> None:
    table = json.loads(encode(step()))
    del table["trained"]
    with pytest.raises(ValueError, match="StepRecord: field 'trained' is missing"):
        decode(StepRecord, json.dumps(table).encode())


@pytest.mark.parametrize(
    "array",
    [
        {"dtype": "|O", "shape": [1], "data": "AAAAAAAAAAA="},
        {"dtype": "<i4", "shape": [3], "data": "AAAAAA=="},
        {"dtype": "<i4", "shape": [-1], "data": "AAAAAA=="},
        {"dtype": "<i4", "shape": [1], "data": "not base64!"},
        {"dtype": "<i4", "shape": None, "data": "AAAAAA=="},
        {"dtype": ["<i4"], "shape": [1], "data": "AAAAAA=="},
        {"dtype": "<i4", "shape": [1]},
        [0],
    ],
)
def test_a_hostile_array_is_refused_by_name(array: Any) -> None:
    table = json.loads(encode(trajectory()))
    table["turns"][0]["sampled_ids"] = array
    with pytest.raises(ValueError, match=r"turns\[0\]\.sampled_ids"):
        decode(Trajectory, json.dumps(table).encode())


@given(st.binary())
def test_arbitrary_bytes_are_an_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(StepRecord, data)


def test_nesting_that_exhausts_the_parser_is_an_ordinary_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(StepRecord, b"[" * 1_000_000)
