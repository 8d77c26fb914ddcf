"""The parts of a tiny policy for an invented harness, built once per module."""

from __future__ import annotations

import pytest

from lego_core.tiny.demonstrations import Demonstrator, corpus
from lego_core.tiny.recording import episode_form
from lego_core.tiny.script import SCRIPTS
from lego_core.tiny.tokenizer import train_tokenizer
from tests.support.invented_harness import HARNESS, invented_recording


@pytest.fixture(scope="module")
def demonstrator() -> Demonstrator:
    form, script = episode_form(invented_recording()), SCRIPTS[HARNESS]
    tokenizer = train_tokenizer(corpus(form, script, seed=0, count=200), form.boilerplate())
    return Demonstrator(form=form, script=script, tokenizer=tokenizer)
