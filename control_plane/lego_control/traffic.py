"""The commands about recorded traffic and about capture without training: their options, nothing else.

As in `cli.py`, what a command needs is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path

import click

from lego_control.finite import finite
from lego_control.options import SANDBOXES


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Checkpoint whose tokenizer and chat template are used.  [default: one token per byte]",
)
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per session instead of tables.")
def replay(file: Path, tokenizer: Path | None, for_programs: bool) -> int:
    """Send the recorded traffic of FILE through the proxy. Exit 1 if a token was lost."""
    from lego_control.replay import replay_file

    return replay_file(file, tokenizer=tokenizer, for_programs=for_programs)


@click.command()
@click.argument("harness")
@click.option(
    "--scenario", default="plain", show_default=True, help="plain, parallel, subagent, compaction or cut."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="Where to write the recording.",
)
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where the harness runs.")
def record(harness: str, scenario: str, out: Path, sandbox: str) -> int:
    """Record the traffic of a real HARNESS against a scripted model."""
    from lego_control.record import record_harness

    return record_harness(harness, scenario=scenario, sandbox=sandbox, out=out)


@click.command()
@click.option(
    "--upstream",
    required=True,
    metavar="URL",
    help="Where vllm serve MODEL --enable-scale-out listens, such as http://127.0.0.1:8000.",
)
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The checkpoint that it serves, for its tokenizer and chat template.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback.  [default: any]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("captures.jsonl"),
    show_default=True,
    help="Where to write the sessions.",
)
@click.option(
    "--template-option",
    "template_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the checkpoint's chat template, such as enable_thinking=false; repeatable.",
)
@click.option("--temperature", type=click.FloatRange(min=0), default=1.0, show_default=True, callback=finite)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Most tokens of one reply.  [default: what fits]"
)
def proxy(
    upstream: str,
    model: Path,
    port: int,
    out: Path,
    template_options: tuple[str, ...],
    temperature: float,
    max_tokens: int | None,
) -> int:
    """Capture sessions in front of a vLLM server, without training. Ctrl-C stops it and writes them."""
    from lego_control.proxy import read_options, serve
    from lego_harness.types import Sampling

    sampling = Sampling(temperature=temperature, max_tokens=max_tokens or 2**30)
    return serve(
        upstream=upstream,
        model=model,
        template_options=read_options(template_options),
        port=port,
        out=out,
        sampling=sampling,
    )


COMMANDS = [replay, record, proxy]
