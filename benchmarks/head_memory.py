"""What log-probabilities of 8,192 tokens take beyond the head itself, by the size of the vocabulary.

    python -m benchmarks.head_memory    as Markdown

Scores and their gradient, from hidden states on, each vocabulary in a process of its own. The head, its gradient
and the hidden states are not counted: they are there however scores are computed.
"""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

from benchmarks.processes import ROOT, module, paths_of_ours

TOKENS, HIDDEN = 8192, 64
VOCABULARIES = (4096, 32_768, 248_320)


def measure(vocabularies: tuple[int, ...] = VOCABULARIES, tokens: int = TOKENS) -> dict[int, int]:
    """Bytes by vocabulary."""
    return {vocab: _run(vocab, tokens) for vocab in vocabularies}


def _run(vocab: int, tokens: int) -> int:
    argv = module("benchmarks.head_memory", str(vocab), str(tokens))
    done = subprocess.run(argv, cwd=ROOT, env=paths_of_ours(), capture_output=True, text=True, check=True)
    return int(done.stdout)


def score(vocab: int, tokens: int) -> int:
    """Bytes at most, in this process."""
    import torch

    from benchmarks.peak import Peak
    from lego_core.training.logprobs import score_tokens

    hidden = torch.randn(1, tokens, HIDDEN, requires_grad=True)
    head = torch.nn.Linear(HIDDEN, vocab, bias=False)
    head.weight.grad, hidden.grad = torch.zeros_like(head.weight), torch.zeros_like(hidden)
    model = SimpleNamespace(
        model=lambda **_: SimpleNamespace(last_hidden_state=hidden),
        lm_head=head,
        config=SimpleNamespace(vocab_size=vocab),
    )
    every = torch.arange(tokens)
    batch = SimpleNamespace(ids=every[None], positions=None, predictor=every, targets=every % vocab)
    peak = Peak()
    score_tokens(model, batch, temperature=1.0).logp.sum().backward()  # pyright: ignore[reportArgumentType] a head alone
    return peak.bytes()


def report(found: dict[int, int], tokens: int = TOKENS) -> str:
    """As Markdown."""
    lines = ["| vocabulary | MiB | all logits would be |", "| ---: | ---: | ---: |"]
    for vocab, taken in found.items():
        lines.append(f"| {vocab:,} | {taken / 2**20:,.0f} | {4 * vocab * tokens / 2**20:,.0f} |")
    return "\n".join(lines)


def verdicts(found: dict[int, int]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    ratio = max(found.values()) / found[min(found)]
    return [
        (f"flat in the vocabulary: {ratio:.2f} times between {min(found):,} and {max(found):,}", ratio <= 1.5)
    ]


def main() -> None:
    if len(sys.argv) == 3:
        sys.stdout.write(str(score(int(sys.argv[1]), int(sys.argv[2]))))
    else:
        found = measure()
        sys.stdout.write(report(found) + "\n\n")
        sys.stdout.writelines(f"- {'reached' if ok else 'MISSED'}: {what}\n" for what, ok in verdicts(found))


if __name__ == "__main__":
    main()
