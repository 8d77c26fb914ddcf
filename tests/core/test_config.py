"""A recipe is refused with the key, what was got and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_core.recipe_file import load_recipe, parse_recipe
from lego_harness.errors import UsageError


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match=r"train\.lerning_rate.*learning_rate"):
        parse_recipe({"train": {"lerning_rate": 1}})


def test_every_bad_key_is_named_at_once() -> None:
    with pytest.raises(UsageError, match=r"rollout\.group_size.*train\.steps.*got 0"):
        parse_recipe({"train": {"steps": 0}, "rollout": {"group_size": "many"}})


def test_a_sampler_that_cuts_the_distribution_is_refused() -> None:
    with pytest.raises(UsageError, match=r"rollout\.top_p.*whole distribution"):
        parse_recipe({"rollout": {"top_p": 0.9}})


def test_any_program_is_a_harness_by_a_table(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(
        '[harness]\nname = "command"\ncontext_tokens = 8192\n'
        '[harness.command]\nargv = ["agent", "{url}"]\nenv = { KEY = "dummy" }\n'
    )
    options = load_recipe(path).harness.options
    assert options.command is not None
    assert (options.command.argv, options.command.env) == (("agent", "{url}"), {"KEY": "dummy"})
    assert (options.context_tokens, options.subagents) == (8192, False)


def test_a_program_without_its_table_a_table_without_its_program_and_unknown_keys_are_refused() -> None:
    for harness in ({"name": "command"}, {"command": {"argv": ["agent"]}}):
        with pytest.raises(UsageError, match=r"\[harness\.command\] go together"):
            parse_recipe({"harness": harness})
    with pytest.raises(UsageError, match=r"'harness\.command\.arg' \(did you mean 'argv'\?\)"):
        parse_recipe({"harness": {"name": "command", "command": {"argv": ["agent"], "arg": "x"}}})


def test_overrides_are_toml_values_and_names_need_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[train]\nlearning_rate = 1e-3\n")
    recipe = load_recipe(path, ["train.learning_rate=0", "sandbox.backend=docker"])
    assert (recipe.train.learning_rate, recipe.sandbox.backend) == (0, "docker")


@pytest.mark.parametrize("override", ["train", "=1", "train.steps", "steps=1", "a.b.c=1"])
def test_an_override_of_another_form_says_the_form(tmp_path: Path, override: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("")
    with pytest.raises(UsageError, match=r"section\.key=value"):
        load_recipe(path, [override])


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[train\n")
    with pytest.raises(UsageError, match=r"recipe\.toml.*TOML"):
        load_recipe(path)


def test_what_is_nested_too_deeply_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(UsageError, match=r"deep\.toml: cannot be read as TOML"):
        load_recipe(path)
    with pytest.raises(UsageError, match=r"run\.name"):
        load_recipe(RECIPES / "quickstart.toml", ["run.name=" + "[" * 100_000])


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"objective": "grpo"}, "the default clip bounds are GSPO's: grpo needs clip_low and clip_high"),
        ({"objective": "dr_grpo", "clip_low": 0.2, "clip_high": 0.2}, "expected advantage_std = false"),
        ({"old_logprobs": "rollout", "rollout_correction": "mask"}, "nothing is left for rollout_correction"),
        ({"objective": "ppo"}, "train.objective"),
    ],
)
def test_objectives_that_do_not_mean_what_they_say_are_refused(train, message):
    with pytest.raises(UsageError, match=message):
        parse_recipe({"train": train})


def test_a_broadcast_of_changes_only_is_refused():
    with pytest.raises(UsageError, match=r'a broadcast sends all weights.*expects weight_sync = "full"'):
        parse_recipe({"engine": {"weight_transfer": "broadcast", "weight_sync": "delta"}})


RECIPES = Path(__file__).parents[2] / "core" / "recipes"


@pytest.mark.parametrize("harness", ["openhands", "claude-code", "opencode"])
def test_the_papers_three_runs_are_recipes_with_the_hyperparameters_of_its_table_10(harness):
    recipe = load_recipe(RECIPES / f"qwen3.5-35b-a3b-{harness}.toml")
    train, rollout = recipe.train, recipe.rollout
    assert recipe.harness.name == harness
    assert (train.objective, train.clip_low, train.clip_high) == ("gspo", 3e-4, 4e-4)
    assert (train.kl_coef, train.grad_clip, train.advantage_std) == (1e-3, 1.0, True)
    assert (train.learning_rate, train.learning_rate_left) == (1e-6, 1.0)
    assert (rollout.groups_per_step, rollout.group_size) == (64, 8)
    assert (rollout.temperature, rollout.top_p, rollout.max_turns) == (1.0, 1.0, 200)
    assert (recipe.eval.temperature, rollout.max_tokens) == (0.7, 170_000)
    assert recipe.engine.max_model_len == 30_000 + 170_000
    assert (train.old_logprobs, train.rollout_correction) == ("recompute", "off")
    assert train.routing_replay
    assert 3 * recipe.tasks.num_train // rollout.groups_per_step == train.steps == 126


def test_every_recipe_in_the_folder_loads():
    assert len([load_recipe(path) for path in RECIPES.glob("*.toml")]) >= 4
