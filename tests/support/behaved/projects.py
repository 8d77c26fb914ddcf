"""Small projects with one fault each, for agents that act by a script in a real harness.

Owns the files, the repair and the hidden test. Tests are unittest's, so that every runner runs them.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lego_harness.tasks.folder import load_task
from lego_harness.types import Task

_TOML = 'version = "1.0"\n[agent]\ntimeout_sec = 900.0\n[verifier]\ntimeout_sec = 300.0\n'
_MAKEFILE = "test:\n\tpython3 -m pytest -q tests\n"
_RUNNER = '#!/bin/sh\ncd "$(dirname "$0")" && exec python3 -m unittest -q\n'
_TOX = "[tox]\nenvlist = py3\n[testenv]\ncommands = python -m unittest\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """One project before its repair."""

    package: str
    instruction: str
    files: dict[str, str]
    """Modules of the package; the first one is at fault."""
    wrong: str
    """A part of one line of the module at fault, once in it."""
    right: str
    call: str
    """A Python expression that shows the fault."""
    case: str
    """The body of a test that the fault fails."""
    beside: dict[str, str] = field(default_factory=dict)
    """Files outside the package."""

    @property
    def module(self) -> str:
        return f"{self.package}/{next(iter(self.files))}"

    @property
    def other(self) -> str:
        return f"{self.package}/{list(self.files)[1]}"

    @property
    def source(self) -> str:
        return next(iter(self.files.values()))

    @property
    def repaired(self) -> str:
        return self.source.replace(self.wrong, self.right)

    @property
    def dotted(self) -> str:
        return self.module.removesuffix(".py").replace("/", ".")

    @property
    def tests(self) -> str:
        return f"tests/test_{self.package}.py"

    def write(self, folder: Path) -> Task:
        """As a task folder."""
        case = (
            f"import unittest\n\nfrom {self.dotted} import *\n\n\nclass Test(unittest.TestCase):\n"
            f"    def test_it(self):\n        {self.case}\n"
        )
        repo = {
            **{f"{self.package}/{name}": text for name, text in self.files.items()},
            f"{self.package}/__init__.py": "",
            "tests/__init__.py": "",
            self.tests: case,
            "README.md": f"# {self.package}\n\nTests: `make test`, `./run_tests.sh` or `tox`.\n",
            "Makefile": _MAKEFILE,
            "run_tests.sh": _RUNNER,
            "tox.ini": _TOX,
            **self.beside,
        }
        written = {
            "task.toml": _TOML,
            "instruction.md": self.instruction + "\n",
            "tests/test_hidden.py": case,
            "solution/solve.sh": f"#!/bin/bash\nset -e\ncat > {self.module} <<'END'\n{self.repaired}END\n",
            **{f"environment/repo/{name}": text for name, text in repo.items()},
        }
        for name, text in written.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@example.org commit -qm initial"):
            subprocess.run(["git", *words.split()], cwd=folder / "environment/repo", check=True)
        return load_task(folder)


PROJECTS = (
    Project(
        package="shop",
        instruction="total() in shop/cart.py ignores how many of an item were bought. Repair it.",
        files={
            "cart.py": "from shop.money import cents\n\n\ndef total(items):\n"
            "    return sum(cents(price) for price, count in items)\n",
            "money.py": "def cents(price):\n    return round(price * 100)\n",
        },
        wrong="cents(price) for",
        right="cents(price) * count for",
        call="total([(1.5, 2), (0.25, 4)])",
        case="self.assertEqual(total([(1.5, 2), (0.25, 4)]), 400)",
    ),
    Project(
        package="textkit",
        instruction="slug() should give lower case: slug('Big News') is 'big-news'. It does not; please fix.",
        files={
            "slug.py": "from textkit.words import words\n\n\ndef slug(title):\n"
            "    return '-'.join(words(title))\n",
            "words.py": "import re\n\n\ndef words(text):\n    return re.findall(r'\\w+', text)\n",
        },
        wrong="words(title)",
        right="words(title.lower())",
        call="slug('Big News')",
        case="self.assertEqual(slug('Big News'), 'big-news')",
    ),
    Project(
        package="clock",
        instruction="clock/span.py: span(75) should say '1:15', but says '1:01'. Find out why and repair it.",
        files={
            "span.py": "from clock.pad import pad\n\n\ndef span(minutes):\n"
            "    return f'{minutes // 60}:{pad(minutes // 60)}'\n",
            "pad.py": "def pad(number):\n    return str(number).zfill(2)\n",
        },
        wrong="pad(minutes // 60)",
        right="pad(minutes % 60)",
        call="span(75)",
        case="self.assertEqual(span(75), '1:15')",
    ),
)
_NPM = '{"name": "it", "private": true, "scripts": {"test": "python3 -m unittest -q"}}\n'
_BIN = "#!/bin/sh\nexec python3 -m unittest discover -s tests -t .\n"
MORE_PROJECTS = (
    Project(
        package="stock",
        instruction="Parts that are exactly at their minimum should be ordered again as well, but\n"
        "to_order({'nut': (5, 5)}) from stock/levels.py gives []. Please correct it; the suite should pass.",
        files={
            "levels.py": '"""What has to be ordered."""\n\nfrom stock.names import label\n\n'
            "FACTOR = 2\n\n\ndef missing(have, least):\n"
            '    """How many bring it to twice its minimum."""\n    return max(FACTOR * least - have, 0)\n\n\n'
            "def to_order(parts):\n    return [label(x) for x, (have, least) in parts.items() if have < least]\n\n\n"
            "def amounts(parts):\n    return {label(x): missing(*parts[x]) for x in parts}\n",
            "names.py": "def label(part):\n    return part.strip().lower()\n",
            "minimum.json": '{"nut": 5, "bolt": 12}\n',
        },
        wrong="have < least",
        right="have <= least",
        call="to_order({'nut': (5, 5)})",
        case="self.assertEqual(to_order({'nut': (5, 5)}), ['nut'])",
        beside={"package.json": _NPM},
    ),
    Project(
        package="post",
        instruction="domain() is wrong for addresses with more than one @ (see post/text/address.py): the last one counts.",
        files={
            "text/address.py": "from post.text import parts\n\n\ndef domain(address):\n"
            "    return parts.first(address)[1]\n\n\ndef is_local(address, own):\n"
            "    return domain(address) == own\n",
            "text/parts.py": "def first(text):\n    return text.split('@', 1)\n\n\n"
            "def last(text):\n    return text.rsplit('@', 1)\n",
            "text/__init__.py": "",
        },
        wrong="parts.first",
        right="parts.last",
        call="domain('a@b@c.org')",
        case="self.assertEqual(domain('a@b@c.org'), 'c.org')",
        beside={"bin/test": _BIN, "docs/addresses.md": "An address has a local part and a domain.\n"},
    ),
    Project(
        package="grid",
        instruction="There is a bug in grid: cells(3, 4) should be 12.",
        files={
            "shape.py": "from grid.checks import positive\n\n\ndef cells(rows, cols):\n"
            "    positive(rows, cols)\n    return rows + cols\n\n\ndef rim(rows, cols):\n"
            "    positive(rows, cols)\n    return 2 * (rows + cols) - 4\n",
            "checks.py": "def positive(*numbers):\n    if min(numbers) < 1:\n        raise ValueError(numbers)\n",
        },
        wrong="return rows + cols",
        right="return rows * cols",
        call="cells(3, 4)",
        case="self.assertEqual(cells(3, 4), 12)",
        beside={"setup.cfg": "[metadata]\nname = grid\n"},
    ),
)
