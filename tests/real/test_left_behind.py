"""A rollout leaves nothing in the machine's temporary folder, whichever harness drives it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, CODEX, MINI_SWE, OPENCODE, OPENHANDS, Harness, install
from tests.support.left_behind import alone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can have a /tmp that is nobody else's"),
]


@pytest.mark.parametrize(
    "harness", [MINI_SWE, CLAUDE_CODE, OPENCODE, CODEX, OPENHANDS], ids=lambda harness: harness.name
)
def test_nothing_new_stands_in_the_temporary_folder_after_a_rollout(harness: Harness, tmp_path: Path) -> None:
    install(harness)
    done = subprocess.run(alone(tmp_path, harness.name), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"rollout": [], "worker": []}
