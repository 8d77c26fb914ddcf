"""`lego proxy` in front of a real `vllm serve`: what vLLM samples is what is captured."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest

from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
START_S = 600.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from lego_core.tiny.tokenizer import VOCAB_SIZE, bootstrap_tokenizer

    folder = build_random_model(tmp_path_factory.mktemp("tiny"), vocab=VOCAB_SIZE)
    bootstrap_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def vllm(model: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "TORCH_COMPILE_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    arguments = [
        *("--model", str(model), "--served-model-name", "tiny", "--dtype", "float32"),
        *("--host", "127.0.0.1", "--port", str(port), "--max-model-len", "4096", "--max-num-seqs", "8"),
        *("--gpu-memory-utilization", "0.2", "--enforce-eager", "--distributed-executor-backend", "uni"),
        *("--enable-scale-out", "--enable-return-routed-experts"),
    ]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *arguments]
    process = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/health", process)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until it answers."""
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s:
        assert process.poll() is None, "vLLM ended"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("vLLM did not start")


@contextmanager
def proxy(upstream: str, model: Path, out: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    arguments = [
        "proxy",
        "--upstream",
        upstream,
        "--model",
        str(model),
        "--out",
        str(out),
        "--max-tokens",
        "24",
    ]
    command = [sys.executable, "-m", "lego_control", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip().partition("=")[2]
        finally:
            if process.poll() is None:
                process.kill()


def test_what_vllm_samples_is_captured_with_its_routes(model: Path, vllm: str, tmp_path: Path) -> None:
    out = tmp_path / "captures.jsonl"
    with proxy(vllm, model, out) as (process, url):
        with openai.OpenAI(base_url=url, api_key="any") as client:
            messages = [{"role": "user", "content": "Say something."}]
            for _ in range(2):
                answer = client.chat.completions.create(model="any", messages=messages)  # type: ignore[arg-type]
                messages += [answer.choices[0].message.model_dump(exclude_none=True)]
                messages += [{"role": "user", "content": "Go on."}]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    (session,) = [json.loads(line) for line in out.read_text().splitlines()]
    turns = session["turns"]
    sampled = [token for turn in turns for token in turn["sampled_ids"]]
    trained = [
        token
        for branch in session["branches"]
        for token, is_on in zip(branch["ids"], branch["mask"], strict=True)
        if is_on
    ]
    assert sorted(trained) == sorted(sampled)
    assert all(logprob <= 0 for turn in turns for logprob in turn["logprobs"])
    branch = session["branches"][0]
    assert branch["routes"]["shape"] == [len(branch["ids"]), 2, 2]
    assert session["error"] == ""
