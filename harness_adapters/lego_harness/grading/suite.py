"""A folder of tests as syntax trees, and which class a name stands for, in a file or in one that it imports from.

Invariants: a file is parsed once; a name is resolved only where one class of these files can be meant, by the folders
that pytest puts on the import path; what comes from elsewhere stands for nothing. Runs nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

_IMPORT_LINE = re.compile(rb"^[ \t]*(?:from|import)[ \t].*", re.MULTILINE)
_WORD = re.compile(rb"\w+")
_MAX_HOPS = 8
"""From the file that uses a class to the one that defines it."""
_INIT = "__init__.py"
_WITHOUT_TESTS = {("unittest", "TestCase"), ("unittest", "IsolatedAsyncioTestCase"), ("abc", "ABC")}
"""By module and name."""


class Suite:
    """The files of a tests folder, by their paths in it."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources
        self._trees: dict[str, ast.Module] = {}
        self._importing: dict[str, set[str]] | None = None
        self._used: dict[tuple[str, str], bool] = {}

    def tree(self, file: str) -> ast.Module:
        """Empty for what is no Python."""
        if file not in self._trees:
            self._trees[file] = _parsed(self._sources.get(file, b""))
        return self._trees[file]

    def class_of(self, file: str, name: ast.expr, before: ast.stmt) -> tuple[str, ast.ClassDef] | None:
        """The class that an expression in a file stands for in front of a statement, and the file that defines it."""
        if isinstance(name, ast.Attribute):
            return self._exported(self._module_of(file, name.value), name.attr)
        if not isinstance(name, ast.Name):
            return None
        body = self.tree(file).body
        earlier = body[: body.index(before)] if before in body else []
        own = [node for node in classes(earlier) if node.name == name.id]
        return (file, own[-1]) if own else self._imported(file, name.id)

    def brings_no_tests(self, file: str, name: ast.expr) -> bool:
        """Whether an expression stands for a class of the standard library that tests are made of."""
        if isinstance(name, ast.Name):
            taken = [
                (statement.module, alias.name)
                for statement in _imports_from(self.tree(file))
                for alias in statement.names
                if (alias.asname or alias.name) == name.id
            ]
            return bool(taken) and set(taken) <= _WITHOUT_TESTS
        return tuple(ast.unparse(name).rpartition(".")[::2]) in _WITHOUT_TESTS

    def is_used_elsewhere(self, file: str, name: str) -> bool:
        """Whether another file has what this one calls so: it would be collected, or inherited, there as well."""
        if (file, name) not in self._used:
            others = self._importers(_stem(file)) - {file}
            self._used[file, name] = any(self._takes(other, file, name) for other in others)
        return self._used[file, name]

    def _takes(self, other: str, file: str, name: str) -> bool:
        for statement in _imports_from(self.tree(other)):
            taken = {alias.name for alias in statement.names}
            if taken & {name, "*"} and self._source_of(other, statement) == file:
                return True
        return any(
            isinstance(node, ast.Attribute)
            and node.attr == name
            and self._module_of(other, node.value) == file
            for node in ast.walk(self.tree(other))
        )

    def _exported(self, file: str, name: str, hops: int = _MAX_HOPS) -> tuple[str, ast.ClassDef] | None:
        own = [node for node in classes(self.tree(file).body) if node.name == name]
        if own:
            return (file, own[0]) if len(own) == 1 else None
        return self._imported(file, name, hops - 1) if hops else None

    def _imported(self, file: str, name: str, hops: int = _MAX_HOPS) -> tuple[str, ast.ClassDef] | None:
        for statement in _imports_from(self.tree(file)):
            for alias in statement.names:
                if alias.name == "*" or (alias.asname or alias.name) == name:
                    wanted = name if alias.name == "*" else alias.name
                    if found := self._exported(self._source_of(file, statement), wanted, hops):
                        return found
        return None

    def _module_of(self, file: str, name: ast.expr) -> str:
        """The file of the module that an expression stands for; empty where it is none of these."""
        said = ast.unparse(name)
        for statement in statements(self.tree(file).body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    if (alias.asname or alias.name) == said:
                        return self._file(file, alias.name, 0)
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    if (alias.asname or alias.name) == said:
                        module = ".".join(filter(None, (statement.module, alias.name)))
                        return self._file(file, module, statement.level)
        return ""

    def _source_of(self, file: str, statement: ast.ImportFrom) -> str:
        return self._file(file, statement.module or "", statement.level)

    def _file(self, importer: str, module: str, level: int) -> str:
        folder = _above(importer)
        for _ in range(level - 1):
            folder = _above(folder)
        if level == 0:
            while _joined(folder, _INIT) in self._sources:
                if not folder:  # the folder of all tests has another name where they run
                    return ""
                folder = _above(folder)
        path = _joined(folder, module.replace(".", "/"))
        found = [name for name in (f"{path}.py", _joined(path, _INIT)) if name in self._sources]
        return found[0] if len(found) == 1 else ""

    def _importers(self, stem: str) -> set[str]:
        """Files with an import in which the word stands."""
        if self._importing is None:
            self._importing = {}
            for file, source in self._sources.items():
                if file.endswith(".py"):
                    for word in {
                        word for line in _IMPORT_LINE.findall(source) for word in _WORD.findall(line)
                    }:
                        self._importing.setdefault(word.decode(), set()).add(file)
        return self._importing.get(stem, set())


def classes(body: list[ast.stmt]) -> list[ast.ClassDef]:
    """Those of a body, and of what is chosen between in it."""
    return [node for node in statements(body) if isinstance(node, ast.ClassDef)]


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The same of all statements."""
    for statement in body:
        yield statement
        match statement:
            case ast.If(body=one, orelse=other):
                yield from statements([*one, *other])
            case ast.Try(body=one, handlers=handlers, orelse=other, finalbody=last):
                inner = [part for handler in handlers for part in handler.body]
                yield from statements([*one, *inner, *other, *last])
            case _:
                pass


def _imports_from(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    return (node for node in statements(tree.body) if isinstance(node, ast.ImportFrom))


def _parsed(source: bytes) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _stem(file: str) -> str:
    """The last word of a module's name."""
    folder, _, name = file.rpartition("/")
    return folder.rpartition("/")[2] if name == _INIT else name.removesuffix(".py")


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
