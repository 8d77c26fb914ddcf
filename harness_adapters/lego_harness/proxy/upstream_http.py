"""A vLLM server as an engine: token ids over HTTP, by its endpoint `/inference/v1/generate`.

    vllm serve MODEL --enable-scale-out        (vLLM 0.30)

Owns that wire. Invariants: what the server says is checked like any engine's; a server that is away or
busy is EngineUnavailable, a request that it refuses is EngineError; cancelling a call closes its connection,
which frees the server's work. Publishes no weights: its policy version is 0.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping
from types import TracebackType
from typing import Annotated

import aiohttp
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lego_harness.errors import EngineError, EngineUnavailable, UsageError
from lego_harness.text import one_line
from lego_harness.types import GenerateRequest, Generation, Routes

GENERATE, MODELS = "/inference/v1/generate", "/v1/models"
CONNECT_S, CHECK_S = 10.0, 30.0
BUSY = (408, 429, 500, 502, 503, 504)


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _LogProb(_Said):
    logprob: float


class _LogProbs(_Said):
    content: list[_LogProb]


class _Choice(_Said):
    token_ids: list[Annotated[int, Field(ge=0, lt=2**31)]]
    logprobs: _LogProbs
    finish_reason: str
    routed_experts: str | None = None
    """Base64 of a .npy file `[positions, L, K]`."""


class _Reply(_Said):
    choices: list[_Choice]


class _Model(_Said):
    id: str
    max_model_len: int


class _Models(_Said):
    data: list[_Model]


class HttpEngine:
    """One server, from `async with` to its end."""

    def __init__(self, url: str) -> None:
        """`url` is the server's root, `http://host:port`."""
        self._url = url.rstrip("/")
        self._http: aiohttp.ClientSession | None = None
        self._model = ""

    async def __aenter__(self) -> HttpEngine:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def look(self) -> int:
        """Its `max_model_len`. Raises UsageError saying what to start where it does not serve token ids."""
        served = self._read(_Models, await self._ask("GET", MODELS), "its list of models")
        if not served.data:
            raise UsageError(f"--upstream {self._url}: it serves no model")
        self._model = served.data[0].id
        status, said = await self._ask("POST", GENERATE, {})
        if status in (404, 405, 501):
            raise UsageError(
                f"--upstream {self._url}: {GENERATE} is not served (status {status}: {_short(said)}); "
                "start it as: vllm serve MODEL --enable-scale-out (vLLM 0.30 or newer)"
            )
        return served.data[0].max_model_len

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample until a stop id or `max_tokens`."""
        try:
            status, said = await self._post(GENERATE, _wire(request, self._model))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineUnavailable(f"engine: {self._url} does not answer: {one_line(str(error))}") from error
        if status in BUSY:
            raise EngineUnavailable(f"engine: {self._url} answered {status}: {_short(said)}")
        if status != 200:
            raise EngineError(f"engine: {self._url} refused the call with {status}: {_short(said)}")
        try:
            (choice,) = _Reply.model_validate_json(said).choices
        except ValueError as error:
            raise EngineError(
                f"engine: {self._url} answered what is no generation: {_short(said)}"
            ) from error
        return Generation(
            ids=np.array(choice.token_ids, np.int32),
            logprobs=np.array([one.logprob for one in choice.logprobs.content], np.float32),
            routes=_routes(choice.routed_experts, request),
            finish_reason=choice.finish_reason,
            policy_version=0,
        )

    async def _ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """As a check: whatever goes wrong is the caller's address."""
        assert self._http is not None, "used outside `async with`"
        try:
            async with self._http.request(
                method, self._url + path, json=body, timeout=aiohttp.ClientTimeout(total=CHECK_S)
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise UsageError(
                f"--upstream {self._url}: no server answers there ({one_line(str(error)) or 'no answer in time'}); "
                "give the address of a running vLLM, such as http://127.0.0.1:8000"
            ) from error

    async def _post(self, path: str, body: Mapping[str, object]) -> tuple[int, bytes]:
        assert self._http is not None, "used outside `async with`"
        async with self._http.post(self._url + path, json=body) as answer:
            return answer.status, await answer.read()

    def _read(self, kind: type[_Models], answer: tuple[int, bytes], what: str) -> _Models:
        status, said = answer
        try:
            if status == 200:
                return kind.model_validate_json(said)
        except ValidationError:
            pass
        raise UsageError(
            f"--upstream {self._url}: {what} is not vLLM's (status {status}: {_short(said)}); "
            "give the root of a vLLM server, without /v1"
        )


def _wire(request: GenerateRequest, model: str) -> dict[str, object]:
    sampling = request.sampling
    return {
        "request_id": request.request_id,
        "model": model,
        "token_ids": request.context_ids.tolist(),
        "sampling_params": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": max(sampling.top_k, 0),
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
            "stop_token_ids": list(request.stop_ids),
            "ignore_eos": True,  # stop_ids is the whole truth: a checkpoint's own list does not add to it
            "logprobs": 0,
            "routed_experts_prompt_start": request.routes_from,
        },
    }


def _routes(encoded: str | None, request: GenerateRequest) -> Routes | None:
    if encoded is None:
        return None
    try:
        return np.load(io.BytesIO(base64.b64decode(encoded, validate=True)), allow_pickle=False)
    except (ValueError, EOFError, binascii.Error) as error:
        raise EngineError(f"engine: call {request.request_id} has routing rows that are no array") from error


def _short(said: bytes) -> str:
    return one_line(said.decode("utf-8", "replace"), limit=200)
