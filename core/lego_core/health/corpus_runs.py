"""The labelled runs themselves: tables of `Replica`."""

from __future__ import annotations

from typing import Any

from lego_core.health.corpus import Curve, Replica, cliff, decay, dip, flat, jump, notch, numbers, rise


def collapses() -> tuple[Replica, ...]:
    """Runs that were lost, each with where its shape was described."""
    return (
        _lost("convsearch", "Conversational-Search/ConvSearch-R1#6", cliff(rise(0.1, 0.65, 60), 270, 0.0, 30), 330),
        _lost("agentic-nan", "verl-project/verl#1581", cliff(rise(0.15, 0.5, 25), 70, 0.0, 4), 100,
              grad_norm=jump(0.3, 60, 66), kl_loss=jump(0.01, 3.0, 66)),
        _lost("exclamations", "verl-project/verl#747, #2626", cliff(rise(0.1, 0.4, 20), 50), 80,
              dominated=jump(0.001, 0.98, 50, 1)),
        _lost("entropy-collapse", "verl-project/verl#5953", decay(rise(0.2, 0.55, 30), 90, 8, 0.02), 160,
              entropy=decay(flat(0.6), 60, 8, 0.01)),
        _lost("entropy-jump", "verl-project/verl#2738", cliff(rise(0.2, 0.45, 30), 80, 0.01, 8), 120,
              entropy=jump(0.3, 4.0, 76), truncated=jump(0.1, 0.97, 80, 5)),
        _lost("mismatch", "verl-project/verl#3597", decay(rise(0.3, 0.6, 80), 300, 12, 0.01), 380,
              pearson_r=jump(0.999, 0.93, 290, 20)),
        _lost("overlong", "rllm-org/rllm#368", cliff(rise(0.15, 0.3, 10), 20, 0.01, 6), 60,
              entropy=jump(0.4, 3.0, 16), truncated=jump(0.15, 0.98, 18, 4)),
        _lost("after-60", "0russwest0/Agent-R1#8", cliff(rise(0.2, 0.5, 20), 60, 0.02, 6), 100),
        _lost("blow-up", "PeterGriffinJin/Search-R1#88", cliff(rise(0.15, 0.4, 40), 160, 0.0, 10), 220),
        _lost("late-plunge", "AMAP-ML/Tree-GRPO#5", cliff(rise(0.3, 0.6, 20), 180, 0.01, 8), 220, phi=0.5, wobble=0.03),
        _lost("bangs", "xiaomi-research/SPG#2", cliff(rise(0.2, 0.5, 100), 650), 700,
              dominated=jump(0.001, 1.0, 650, 2)),
        _lost("thousands", "PrimeIntellect-ai/prime-rl#964", decay(rise(0.2, 0.6, 200), 1500, 20, 0.0), 1650),
        _lost("one-iteration", "modelscope/ms-swift#9246", cliff(flat(0.2), 1), 40, dominated=jump(0.0, 0.99, 1, 1)),
        _lost("speed-kills", "When Speed Kills Stability (training-inference mismatch), four Qwen3-14B tool runs",
              cliff(rise(0.25, 0.55, 50), 140, 0.0, 6), 190, grad_norm=jump(0.3, 30, 137)),
        _lost("ml-agents", "Unity-Technologies/ml-agents#101", numbers([2.3, 70, 57, 8, 0.2, 0.2], 25, 100), 126),
        _lost("table-8", "arXiv 2608.17393, Table 8", decay(flat(0.351), 40, 6, 0.03), 100,
              turns=jump(18.9, 0.96, 40, 25), entropy=jump(0.134, 0.23, 40, 25)),
        _lost("low-and-gone", "simulated", cliff(flat(0.12), 60), 100),
        _lost("early", "simulated", cliff(rise(0.3, 0.8, 6), 14), 45, groups=8, group_size=8),
        _lost("early-noisy", "simulated", cliff(flat(0.5), 14), 45, groups=8, group_size=4, wobble=0.08),
        _lost("two-groups", "simulated", cliff(flat(0.6), 60), 100, groups=2),
        _lost("lone-group", "simulated", cliff(flat(0.8), 60), 100, groups=1),
        _lost("residue", "simulated", cliff(flat(0.6), 80, 0.03, 4), 120),
        _lost("rebound", "simulated", notch(cliff(flat(0.6), 70, 0.01), 80, 0.12, 4), 120),
        _lost("linear-fall", "simulated", cliff(flat(0.5), 60, 0.0, 40), 140),
        _lost("after-a-resume", "simulated", cliff(rise(0.4, 0.9, 10), 15), 45, groups=8, resumed=(15,)),
        _lost("form", "simulated", cliff(rise(0.2, 0.6, 20), 60, 0.01, 3), 90,
              malformed=jump(0.01, 0.99, 59), silent=jump(0.0, 0.99, 60)),
    )  # fmt: skip


def healthy() -> tuple[Replica, ...]:
    """Runs that go on learning, some of which look as if they did not."""
    return (*_plain(), *_noisy(), *_dipping(), *_resumed(), *_odd())


def _plain() -> list[Replica]:
    ends = ((0.02, 0.4, 40), (0.1, 0.3, 60), (0.2, 0.6, 30), (0.35, 0.8, 30), (0.45, 0.98, 8), (0.3, 1.0, 12))
    rising = [_fine(f"rise-{a}-{b}", rise(a, b, half), 150) for a, b, half in ends]
    level = [_fine(f"flat-{p}", flat(p), 200) for p in (0.01, 0.05, 0.15, 0.35, 0.6, 0.9)]
    return [*rising, *level, _fine("long", rise(0.2, 0.6, 200), 1000)]


def _noisy() -> list[Replica]:
    small = [
        _fine(f"small-{p}", flat(p), 200, groups=4, group_size=4, spread=0.25)
        for p in (0.05, 0.15, 0.35, 0.7)
    ]
    wandering = [
        _fine(f"wandering-{phi}-{sd}", flat(0.35), 200, phi=phi, wobble=sd)
        for phi, sd in ((0.3, 0.08), (0.6, 0.08), (0.8, 0.08), (0.8, 0.05), (0.9, 0.04))
    ]
    return [
        *small,
        *wandering,
        _fine("tiny-batch", rise(0.1, 0.4, 40), 200, groups=2, group_size=8, spread=0.3),
        _fine("wild", flat(0.5), 200, groups=4, wobble=0.15),
        _fine("wild-low", flat(0.25), 200, groups=4, wobble=0.08),
    ]


def _dipping() -> list[Replica]:
    base = rise(0.2, 0.6, 25)
    waves = ((0.3, 10), (0.5, 10), (0.5, 25), (0.7, 12), (0.7, 20), (0.9, 12), (0.9, 8), (1.0, 6))
    return [
        *(_fine(f"dip-{depth}-{length}", dip(base, 70, depth, length), 150) for depth, length in waves),
        _fine("notch-0-5", notch(base, 70, 0.0, 5), 150),
        _fine("notch-0.05-8", notch(base, 70, 0.05, 8), 150),
        _fine("notch-0.1-10", notch(base, 70, 0.1, 10), 150),
        _fine("dip-twice", dip(dip(base, 50, 0.8, 10), 80, 0.8, 10), 150),
        _fine("early-dip", dip(rise(0.4, 0.9, 10), 12, 0.8, 9), 60, groups=8),
    ]


def _resumed() -> list[Replica]:
    base = rise(0.2, 0.6, 25)
    return [
        _fine("resume-dip", dip(base, 60, 0.7, 10), 120, resumed=(61,)),
        _fine("resume-zero", notch(base, 60, 0.0, 6), 120, resumed=(61,)),
        _fine("resume-low", notch(base, 60, 0.05, 9), 120, resumed=(61,)),
        _fine("resume-twice", notch(notch(base, 50, 0.05, 6), 90, 0.05, 6), 130, resumed=(51, 91)),
        _fine("resume-slow", dip(base, 60, 0.8, 16), 120, resumed=(61,), symptoms={"grad_norm": dip(flat(0.5), 60, -9.0, 6)}),
    ]  # fmt: skip


def _odd() -> list[Replica]:
    return [
        _fine("solved", rise(0.5, 1.0, 5), 120, groups=8),
        _fine("nearly-solved", rise(0.5, 0.97, 5), 120, groups=8, spread=0.05),
        _fine("slow-start", lambda s: 0.5 * (s > 40) * (1 - 0.5 ** ((s - 40).clip(0) / 15)), 120),
        _fine("slow-start-sparse", rise(0.003, 0.1, 60), 200, groups=8),
        _fine("harder-pool", cliff(rise(0.3, 0.7, 20), 70, 0.42, 1), 140),
        _fine("epochs", lambda s: 0.4 + 0.12 * ((s // 20) % 2), 160),
        _fine("always-truncated", rise(0.2, 0.5, 30), 120, symptoms={"truncated": flat(0.97)}),
        _fine("always-or-never", flat(0.27), 200, groups=2, solvable=0.9),
        _fine("always-or-never-4", flat(0.27), 200, groups=4, solvable=0.9),
        _fine("seldom-or-never", flat(0.12), 200, groups=2, solvable=0.9),
        _fine("seldom-or-never-4", flat(0.1), 200, groups=4, solvable=0.95),
        _fine("one-group", flat(0.4), 200, groups=1),
        _fine("one-group-polar", flat(0.4), 200, groups=1, solvable=0.9),
        _fine("one-group-seldom", flat(0.15), 200, groups=1, solvable=0.9),
        _fine("half-without-variance", rise(0.2, 0.5, 30), 120, groups=8, spread=0.4),
        _fine(
            "always-truncated-dip",
            dip(rise(0.2, 0.6, 25), 70, 0.7, 20),
            120,
            symptoms={"truncated": flat(0.96)},
        ),
        _fine("uses-every-turn", rise(0.2, 0.6, 25), 120, symptoms={"truncated": jump(0.1, 0.98, 60, 5)}),
        _fine("answers-at-once", rise(0.2, 0.6, 25), 120, symptoms={"silent": jump(0.1, 0.98, 60, 5)}),
        _fine("spiking-gradient", flat(0.5), 120, symptoms={"grad_norm": notch(flat(0.3), 60, 40.0, 1)}),
        _fine("entropy-falls", rise(0.2, 0.6, 25), 120, symptoms={"entropy": decay(flat(0.8), 0, 25, 0.05)}),
        _fine("length-grows", rise(0.2, 0.6, 25), 120, symptoms={"response_tokens": rise(800, 4000, 40)}),
    ]


def _lost(name: str, source: str, reward: Curve, n: int, **rest: Any) -> Replica:
    known = {k: rest.pop(k) for k in ("groups", "group_size", "phi", "wobble", "resumed") if k in rest}
    return Replica(name=name, source=source, collapses=True, reward=reward, n=n, symptoms=rest, **known)


def _fine(name: str, reward: Curve, n: int, **rest: Any) -> Replica:
    return Replica(name=name, source="simulated", collapses=False, reward=reward, n=n, **rest)
