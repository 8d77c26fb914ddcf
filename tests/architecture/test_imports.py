"""Faces start fast and torch-free; importing a module does nothing but define things."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "lego_harness": ROOT / "harness_adapters",
    "lego_core": ROOT / "core",
    "lego_tui": ROOT / "tui",
    "lego_control": ROOT / "control_plane",
}
SOURCES = sorted(path for name, root in PACKAGES.items() for path in (root / name).rglob("*.py"))
IN_THE_HARNESS = "lego_harness.adapters.programs"
"""Programs that run inside a harness's own installation; importable only there."""
TORCH_FREE_CORE = (
    "lego_core.types",
    "lego_core.config",
    "lego_core.recipe_file",
    "lego_core.errors",
    "lego_core.store",
    "lego_core.health",
)
ACTS_AT_IMPORT = {
    "lego_core.inference.vllm_worker": "vLLM imports it by name in its worker, to register what it holds",
}
"""Module → why it may call something when imported."""


def module_name(path: Path) -> str:
    root = next(root for root in PACKAGES.values() if path.is_relative_to(root))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_face(name: str) -> bool:
    """True for modules that must import without torch: the faces, the harness side, the core's records."""
    if name.startswith(IN_THE_HARNESS) or name.endswith("__main__"):
        return False
    return not name.startswith("lego_core.") or name.startswith(TORCH_FREE_CORE)


FACES = [name for name in map(module_name, SOURCES) if is_face(name)]

WATCHED_IMPORT = """
import importlib, sys
acts = []
def watch(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.fork", "os.mkdir", "os.remove", "os.rename", "socket.connect",
                 "socket.bind", "os.putenv", "os.unsetenv"):
        acts.append(f"{event}{arguments}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        acts.append(f"{event}{arguments}")
# What the libraries do is theirs: have them loaded before the watch begins.
import aiohttp, click, docker, jinja2, numpy, pydantic, rich.live, rich.table, tokenizers, zstandard
sys.addaudithook(watch)
for name in sys.argv[1:]:
    importlib.import_module(name)
print("heavy:", sorted({"torch", "ray", "vllm", "transformers"} & set(sys.modules)))
print("acts:", acts)
"""


def test_faces_import_no_torch_ray_or_vllm_and_do_nothing_when_imported(tmp_path: Path) -> None:
    assert len(FACES) > 20
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", WATCHED_IMPORT, *FACES],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["heavy: []", "acts: []"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["--help", "train --help", "show --help"])
def test_the_command_line_starts_without_the_heavy_libraries(command: str) -> None:
    script = (
        "import sys; from lego_control.cli import main\n"
        f"try: main({command.split()!r})\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('loaded:', sorted({'torch', 'ray', 'vllm', 'transformers', 'docker', 'aiohttp', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_module_calls_nothing_when_it_is_imported(path: Path) -> None:
    """For torch modules too, which the test above cannot afford to import."""
    calls = [
        f"{path.name}:{node.lineno}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant))
        or isinstance(node, ast.For | ast.While | ast.With | ast.Try | ast.Delete)
        or (isinstance(node, ast.If) and not _is_guard(node))
    ]
    assert calls == [] or module_name(path) in ACTS_AT_IMPORT


def _is_guard(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("__name__ == '__main__'", "TYPE_CHECKING")


def test_every_exception_to_the_rule_still_exists() -> None:
    assert set(ACTS_AT_IMPORT) <= set(map(module_name, SOURCES))
