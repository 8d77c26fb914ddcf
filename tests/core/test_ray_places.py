"""What a cluster cannot do for a run is one line, said before a process of the run starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lego_core import ray_nodes
from lego_core.launch import main
from lego_core.ray_nodes import fault_here
from lego_core.ray_places import Joining, open_ray, require_cluster
from lego_core.store.writer import versions
from lego_harness.errors import InfrastructureError, UsageError
from tests.support.runs import recipe

SOMEWHERE = "10.1.2.3:6379"


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is taken and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("address", ["ray://10.1.2.3:10001", "10.1.2.3", ":6379", "10.1.2.3:port", ""])
def test_an_address_of_another_form_is_refused_with_the_form_expected(address: str) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT of the cluster's head"):
        require_cluster(address)


@pytest.mark.xdist_group("launches")  # see test_leftovers.py
def test_no_cluster_at_the_address_is_said_before_a_run_begins(
    nobody: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(f'[run]\nruns_dir = "{tmp_path / "runs"}"\n')
    assert main(["--recipe", str(file), "--ray-address", nobody]) == 3
    said = capfd.readouterr().err
    assert f"there is no Ray cluster at {nobody}" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


async def test_a_cluster_of_other_versions_is_one_line_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def other_versions(**_: Any) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.12.1\n"
        )

    monkeypatch.setattr(ray, "init", other_versions)
    joining = Joining(address=SOMEWHERE, shared=tmp_path / "exchange", needed=[])
    with pytest.raises(
        InfrastructureError, match=rf"at {SOMEWHERE} .* Ray: 2\.9\.0 Python: 3\.12\.1.*same versions"
    ):
        async with open_ray(recipe(), tmp_path, joining):
            pass
    assert not joining.shared.exists()


@pytest.mark.slow
@pytest.mark.parametrize("stranger", [{"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "a guess"}])
def test_a_runs_own_ray_answers_nobody_without_its_token(ray_session: None, stranger: dict[str, str]) -> None:
    import ray

    join = f"import ray; ray.init(address={ray.get_runtime_context().gcs_address!r})"
    environment = {**os.environ, "RAY_gcs_server_port_wait_time_s": "2", **stranger}
    done = subprocess.run([sys.executable, "-c", join], capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert "token" in done.stderr


def test_a_launch_decides_on_the_token_before_ray_reads_it() -> None:
    program = "import sys, lego_core.launch; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_node_that_sees_what_we_see_lacks_nothing(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("ours")
    assert fault_here(tmp_path, "ours", [tmp_path], versions()) == ""
    assert [file.name for file in tmp_path.iterdir()] == ["word"]


def test_a_node_without_the_run_directory_is_told_what_to_do(tmp_path: Path) -> None:
    said = fault_here(tmp_path / "run" / "exchange", "ours", [], versions())
    assert said.startswith(f"does not see the run directory {tmp_path / 'run'}")
    assert "put run.runs_dir on a file system that every node has" in said


def test_a_folder_of_the_same_name_is_not_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("hers")
    assert "another folder is there" in fault_here(tmp_path, "ours", [], versions())


def test_a_model_that_a_node_does_not_see_is_named(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("ours")
    model = tmp_path / "model"
    assert fault_here(tmp_path, "ours", [tmp_path, model], versions()).startswith(f"does not see {model}")


def test_a_node_with_another_torch_is_told_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "word").write_text("ours")
    monkeypatch.setattr(ray_nodes, "versions", lambda: {**versions(), "torch": "1.0"})
    said = fault_here(tmp_path, "ours", [], versions())
    assert "1.0" in said
    assert versions()["torch"] in said
