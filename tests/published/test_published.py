"""Our objectives are those that TRL and verl published, where these agree with the papers.

Both are heavy, so they live in a throw-away environment on top of this one, and the comparison runs
there as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, **variables):
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **variables}, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.soak
def test_loss_and_gradients_are_those_of_trl_and_verl(tmp_path):
    venv.create(tmp_path, with_pip=True)
    python = tmp_path / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    (Path(site) / "ours.pth").write_text(sysconfig.get_paths()["purelib"])
    run(python, "-m", "pip", "install", "-q", "--no-deps", "-r", ROOT / "requirements" / "published.txt")
    path = os.pathsep.join(p for p in sys.path if p.startswith(str(ROOT)) and "site-packages" not in p)
    found = json.loads(run(python, ROOT / "tests/published/compare.py", PYTHONPATH=path).splitlines()[-1])
    assert len(found) == 17
    assert {name: gap for name, gap in found.items() if gap > 1e-6} == {}
