"""Which of an agent's changes are graded, and how they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.grading.patch import MAX_PATCH_CHARS, graded_tree, make_patch

BEFORE = {
    "calc.py": b"a\nb\n",
    "tests/test_calc.py": b"t\n",
    "setup.cfg": b"[metadata]\n",
    "docs/x.md": b"d\n",
}
REVERTED = [
    "conftest.py",
    "pkg/conftest.py",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "tests/test_calc.py",
    "tests/data/new.json",
    "pkg/test/x.py",
    "test_new.py",
    "pkg/new_test.py",
    "x.pth",
    "calc.cpython-311-x86_64-linux-gnu.so",
    "evil-1.dist-info/entry_points.txt",
    "evil.egg-info/entry_points.txt",
    "sitecustomize.py",
    "usercustomize.py",
    "sitecustomize/__init__.py",
    "pytest.py",
    "_pytest/x.py",
    "json.py",
    "unittest/mock.py",
    "CONFTEST.PY",
]
SHADOWING = {"sitecustomize/__init__.py", "pytest.py", "_pytest/x.py", "json.py", "unittest/mock.py"}
"""Refused when new; a task may have its own."""
TREES = st.dictionaries(
    st.sampled_from([*BEFORE, *REVERTED, "new.py", "pkg/a.py", "pkg", "docs", "tests", "__pycache__/x.pyc"]),
    st.binary(max_size=30),
)


def is_possible(tree: dict[str, bytes]) -> bool:
    """No path is both a file and a folder."""
    return not any(path.startswith(f"{other}/") for path in tree for other in tree)


def test_many_files_and_a_key_of_many_parts_are_no_work() -> None:
    """These take minutes where every file is compared with every other, and hours where the key is parsed."""
    many = {f"new/{number}": b"" for number in range(20_000)}
    assert graded_tree(BEFORE, {**BEFORE, **many}).files == {**BEFORE, **many}
    dotted = b"[tool.black]\n" + b".".join([b"a"] * 200_000) + b" = 1\n"
    tree = graded_tree(BEFORE, {**BEFORE, "pyproject.toml": dotted})
    assert tree.reverted == ("pyproject.toml (test runner configuration)",)


@pytest.mark.parametrize("path", REVERTED)
def test_a_test_side_change_is_reverted_and_named(path: str) -> None:
    tree = graded_tree(BEFORE, {**BEFORE, path: b"evil"})
    assert tree.files == BEFORE
    assert [line.partition(" (")[0] for line in tree.reverted] == [path]


@pytest.mark.parametrize(
    "path", ["__pycache__/calc.cpython-311.pyc", "calc.pyc", ".git/hooks/post-commit", ".git/config"]
)
def test_by_products_are_left_out_without_a_word(path: str) -> None:
    tree = graded_tree(BEFORE, {**BEFORE, path: b"x"})
    assert (tree.files, tree.reverted) == (BEFORE, ())


@pytest.mark.parametrize(
    "path",
    [
        ".tox/py/x.py",
        "web/node_modules/left/index.js",
        "env/lib/python3.11/site-packages/pip-1.dist-info/METADATA",
        "env/pyvenv.cfg",
        "calc.egg-info/PKG-INFO",
        "src/calc.egg-info/SOURCES.txt",
    ],
)
def test_what_installing_leaves_behind_is_left_out_without_a_word(path: str) -> None:
    tree = graded_tree(BEFORE, {**BEFORE, "env/pyvenv.cfg": b"home = /usr\n", path: b"x"})
    assert (tree.files, tree.reverted) == (BEFORE, ())


@pytest.mark.parametrize("path", ["packaging/extra.py", "site/index.html", "code/new/x.txt"])
def test_a_project_may_grow_where_it_has_the_name_of_another_module(path: str) -> None:
    own = {**BEFORE, "packaging/__init__.py": b"", "site/old.html": b""}
    assert graded_tree(own, {**own, path: b"x"}).files == {**own, path: b"x"}


def test_changed_added_and_deleted_files_are_graded() -> None:
    after = {
        "calc.py": b"c\n",
        "pkg/new.py": b"n\n",
        "tests/test_calc.py": b"t\n",
        "setup.cfg": b"[metadata]\n",
    }
    assert graded_tree(BEFORE, after) == graded_tree(after, after)


def test_a_deleted_test_comes_back() -> None:
    assert graded_tree(BEFORE, {}).files == {
        k: v for k, v in BEFORE.items() if k not in ("calc.py", "docs/x.md")
    }


def test_a_pyproject_that_is_nested_too_deeply_is_reverted() -> None:
    before = {"pyproject.toml": b"[tool.pytest.ini_options]\naddopts = ''\n", "calc.py": b""}
    deep = b"a = " + b"[" * 100_000
    assert graded_tree(before, {"pyproject.toml": deep, "calc.py": b"right"}).files == {
        **before,
        "calc.py": b"right",
    }


def test_pyproject_is_graded_unless_its_pytest_part_changed() -> None:
    before = {"pyproject.toml": b"[tool.pytest.ini_options]\naddopts = ''\n"}
    harmless = {"pyproject.toml": before["pyproject.toml"] + b"[tool.ruff]\n"}
    assert graded_tree(before, harmless).files == harmless
    for content in (b"", b"[tool.pytest.ini_options]\naddopts = '--co'\n", b"not toml", b"tool = 1"):
        assert graded_tree(before, {"pyproject.toml": content}).files == before


@given(TREES.filter(is_possible), TREES.filter(is_possible))
def test_what_is_graded_is_either_the_tasks_own_or_the_agents(
    before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    files = graded_tree(before, after).files
    assert all(content in (before.get(path), after.get(path)) for path, content in files.items())
    protected = [path for path in before if path in REVERTED and path not in SHADOWING]
    assert all(files[path] == before[path] for path in protected)
    assert not any(f"{path}/".startswith(f"{other}/") for path in files for other in files if path != other)


def test_a_patch_is_a_unified_diff_of_the_whole_change() -> None:
    after = {
        **BEFORE,
        "calc.py": b"a\nc\n",
        "new.py": b"n",
        "conftest.py": b"x\n",
        "x.bin": b"\0",
        "__pycache__/x": b"",
    }
    patch = make_patch(BEFORE, {k: v for k, v in after.items() if k != "docs/x.md"})
    assert "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n" in patch
    assert "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+n\n" in patch
    assert "--- a/docs/x.md\n+++ /dev/null\n" in patch
    assert "+++ b/conftest.py" in patch
    assert "+++ b/x.bin\n@@ not shown: 0 → 1 bytes, binary or large @@" in patch
    assert "__pycache__" not in patch


def test_no_change_is_an_empty_patch() -> None:
    assert make_patch(BEFORE, BEFORE) == ""


@given(
    st.dictionaries(st.text(max_size=5), st.binary(max_size=200)),
    st.dictionaries(st.text(max_size=5), st.binary(max_size=200)),
)
def test_a_patch_never_carries_control_characters(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    patch = make_patch(before, after)
    assert all(c in "\n\t" or c.isprintable() for c in patch)


def test_a_patch_is_bounded() -> None:
    lines = b"".join(b"%d %s\n" % (i, b"x" * 40) for i in range(1900))
    patch = make_patch({}, {"a.py": lines, "b.py": lines, "c.py": lines * 9})
    assert MAX_PATCH_CHARS * 0.9 < len(patch) < MAX_PATCH_CHARS + 100
    assert "cut at" in patch
