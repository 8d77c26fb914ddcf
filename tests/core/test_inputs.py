"""Inputs of a run are refused before anything is started, with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_core.inputs import prepare_model, prepare_tasks
from lego_harness.errors import UsageError
from lego_harness.sandbox.choose import choose_backend
from tests.support.checkpoint import write_checkpoint
from tests.support.families import TEMPLATES
from tests.support.runs import recipe


async def test_a_generated_pool_is_written_into_the_run_and_proven(tmp_path: Path) -> None:
    wanted = recipe(tasks={"num_train": 4, "num_heldout": 3})
    backend = choose_backend("bubblewrap")
    train, heldout = await prepare_tasks(wanted, tmp_path / "tasks", backend)
    assert [len(train), len(heldout)] == [4, 3]
    assert all((tmp_path / "tasks" / task.id / "task.toml").is_file() for task in (*train, *heldout))
    again, _ = await prepare_tasks(wanted, tmp_path / "tasks", backend)
    assert again == train


async def test_a_task_that_is_solved_untouched_is_refused_by_name(tmp_path: Path) -> None:
    wanted = recipe(tasks={"num_train": 2, "num_heldout": 1})
    backend = choose_backend("bubblewrap")
    train, _ = await prepare_tasks(wanted, tmp_path / "tasks", backend)
    (test_file,) = train[0].tests.glob("test_*.py")
    test_file.write_text("def test_nothing():\n    pass\n")
    with pytest.raises(UsageError, match=train[0].id):
        await prepare_tasks(wanted, tmp_path / "tasks", backend)


async def test_a_pool_that_is_too_small_says_which_key_to_lower(tmp_path: Path) -> None:
    backend = choose_backend("bubblewrap")
    await prepare_tasks(recipe(tasks={"num_train": 1, "num_heldout": 1}), tmp_path / "tasks", backend)
    wanted = recipe(tasks={"pool": str(tmp_path / "tasks"), "num_train": 5, "num_heldout": 1})
    with pytest.raises(UsageError, match=r"lower tasks\.num_train"):
        await prepare_tasks(wanted, tmp_path / "unused", backend)


async def test_a_harness_without_a_tiny_policy_needs_a_checkpoint() -> None:
    with pytest.raises(UsageError, match=r"no tiny policy for codex.*set model\.path"):
        await prepare_model(recipe(harness={"name": "codex"}))


async def test_a_model_path_without_a_checkpoint_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.json and no tokenizer\.json"):
        await prepare_model(recipe(model={"path": str(tmp_path)}))


async def test_a_template_option_that_the_checkpoint_does_not_read_is_refused(tmp_path: Path) -> None:
    template = (TEMPLATES / "qwen3.jinja").read_text()
    folder = write_checkpoint(tmp_path, template=template)
    (folder / "config.json").write_text("{}")
    known = {"path": str(folder), "template_options": {"enable_thinking": False}}
    assert await prepare_model(recipe(model=known)) == folder
    with pytest.raises(UsageError, match=r"does not read the option 'thinking', expected enable_thinking"):
        await prepare_model(recipe(model={**known, "template_options": {"thinking": False}}))
    with pytest.raises(UsageError, match="the tiny policy's chat template has none"):
        await prepare_model(recipe(model={"template_options": {"enable_thinking": False}}))


async def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path)
    (folder / "config.json").write_text('{"vocab_size": 300}')
    with pytest.raises(UsageError, match=r"ids up to \d+, its embedding 300 rows.*another model's"):
        await prepare_model(recipe(model={"path": str(folder)}))
