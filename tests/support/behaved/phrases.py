"""Shell commands that do one thing in the less usual ways: reads, edits, test runs, programs, failures, wrappers.

Each function gives every way for one project; a script draws one. Owns no order and no judgement of what a command is.
"""

from __future__ import annotations

import difflib
import re

from tests.support.behaved.projects import Project


def reads(path: str) -> list[str]:
    folder, _, name = path.rpartition("/")
    folder = folder or "."
    return [
        f"awk '{{print NR\": \"$0}}' {path}",
        f"awk 'NR>=1 && NR<=30' {path}",
        f"grep -n '' {path}",
        f"grep -n return {path}",
        f"grep -A6 -n 'def ' {path}",
        f"perl -ne 'print \"$.: $_\"' {path}",
        f"sed -n '/def /,$p' {path}",
        f"sed '' {path}",
        f"less {path} | cat",
        f"more {path}",
        f"git show HEAD:{path}",
        f"git blame {path} | head -30",
        f"python3 -c \"print(open('{path}').read())\"",
        f"cat < {path}",
        f"cat {path} | head -20 | grep -v '^$'",
        f"wc -l {path} && head -25 {path}",
        f'f={path}; echo "--- $f"; cat "$f"',
        f"cd {folder} && cat {name}",
        f"(cd {folder}; nl -ba {name})",
        f"cat ./{path} 2>/dev/null || echo 'no such file'",
        f"tac {path} | tac",
        f"cut -c1-100 {path}",
        f"jq -R . {path}",
        f'echo "$(<{path})"',
        f'bash -c "cat {path}"',
        f"cat {folder}/../{path}",
    ]


def read_many(p: Project) -> list[str]:
    return [
        f"cat {p.module} {p.other}",
        f"head -n 60 {p.package}/*.py",
        "find . -name '*.py' -not -path './.git/*' -exec cat {} +",
        "for f in $(git ls-files '*.py'); do echo \"=== $f\"; sed -n '1,40p' \"$f\"; done",
        "git ls-files | grep '\\.py$' | xargs cat",
        "git ls-files '*.py' | while read -r f; do wc -l \"$f\"; done",
        f"cat {p.module}; echo ------; cat {p.tests}; echo ------; cat setup.py",
        f"paste -d'|' {p.module} {p.other} | head",
        f"diff {p.module} {p.other}",
        f"sed -n '1,30p' {p.module} {p.tests}",
        f"ls {p.package} && cat README.md && cat {p.tests}",
        f"tail -n +1 {p.module} tests/*.py",
        "cat $(grep -rl return --include='*.py' .)",
        "tree -L 2 || ls -R",
    ]


def edits(p: Project) -> list[str]:
    m, fixed = p.module, p.repaired
    sed = f"s|{p.wrong}|{p.right}|"
    diff = "".join(
        difflib.unified_diff(
            p.source.splitlines(keepends=True), fixed.splitlines(keepends=True), f"a/{m}", f"b/{m}"
        )
    )
    number = next(i for i, line in enumerate(p.source.splitlines(), 1) if p.wrong in line)
    line = fixed.splitlines()[number - 1]
    program = (
        f"from pathlib import Path\n\npath = Path('{m}')\ntext = path.read_text()\nassert text.count({p.wrong!r}) == 1\n"
        f"path.write_text(text.replace({p.wrong!r}, {p.right!r}))\nprint('edited', path)\n"
    )
    return [
        f"git apply <<'EOF'\n{diff}EOF",
        f"patch -p1 <<'EOF'\n{diff}EOF",
        f"cat > /tmp/fix.patch <<'EOF'\n{diff}EOF\ngit apply --check /tmp/fix.patch && git apply /tmp/fix.patch",
        f"patch -p1 --dry-run <<'EOF'\n{diff}EOF\necho {m}; {sed_i(sed, m)}",
        f"perl -pi -e 's{{\\Q{p.wrong}\\E}}{{{p.right}}}' {m}",
        f"perl -0777 -i -pe 's{{\\Q{p.wrong}\\E}}{{{p.right}}}' {m} && git diff --stat",
        f"ed -s {m} <<'EOF'\n,{sed}\nw\nq\nEOF",
        f"ex -sc '%{sed}' -cx {m}",
        f"sed '{sed}' {m} > /tmp/new.py && mv /tmp/new.py {m}",
        f"sed '{sed}' {m} > {m}.new; cp {m}.new {m}; rm {m}.new",
        f"awk -v n={number} 'NR==n {{print \"{line}\"; next}} {{print}}' {m} > /tmp/x && cat /tmp/x > {m}",
        f"tee {m} > /dev/null <<'EOF'\n{fixed}EOF",
        f"cat <<'EOF' > {m}\n{fixed}EOF\necho written",
        f"python3 <<'PY'\n{program}PY",
        f"cat > /tmp/fix.py <<'PY'\n{program}PY\npython3 /tmp/fix.py",
        f"python - {m} <<'PY'\nimport re, sys\nname = sys.argv[1]\nsource = open(name).read()\n"
        f"with open(name, 'w') as file:\n    file.write(re.sub({re.escape(p.wrong)!r}, {p.right!r}, source))\nPY",
        f"node -e \"const fs = require('fs'); fs.writeFileSync('{m}', fs.readFileSync('{m}', 'utf8').replace('{p.wrong}', '{p.right}'))\"",
        f"sed -i '{number}s/.*/{line}/' {m} && sed -n '{max(1, number - 2)},{number + 2}p' {m}",
        f"bash -c \"sed -i '{sed}' {m}\"",
        f"sudo sed -i '{sed}' {m} || sed -i '{sed}' {m}",
        f"grep -rl '{p.wrong}' --include='*.py' {p.package} | xargs sed -i '{sed}'",
        f"find {p.package} -name '*.py' -exec sed -i '{sed}' {{}} \\;",
        f"cp {m} {m}.orig && sed -i '{sed}' {m} && diff {m}.orig {m}; rm -f {m}.orig",
        f'F={m}\nsed -i \\\n  -e \'{sed}\' \\\n  "$F"\ncat "$F"',
    ]


def sed_i(sed: str, path: str) -> str:
    return f"sed -i '{sed}' {path}"


def suite_runs(p: Project) -> list[str]:
    dotted = p.tests.removesuffix(".py").replace("/", ".")
    return [
        f"python -m unittest {dotted}",
        "python -m unittest discover -s tests -t . -v 2>&1 | grep -E '^(OK|FAILED|Ran)'",
        "tox -e py3",
        "tox -q || python -m unittest -q",
        "make -s test",
        "make",
        "make check || make test",
        "cd tests && python -m pytest -q .. ; cd ..",
        f"python -m pytest -x -q {p.tests}::Test::test_it",
        "PYTHONDONTWRITEBYTECODE=1 python3 -B -m pytest -q -p no:cacheprovider --tb=short",
        "env PYTHONPATH=. py.test -q",
        "python -c \"import sys, pytest; sys.exit(pytest.main(['-q']))\"",
        f"python3 -c \"import unittest; unittest.main('{dotted}', argv=['x'])\"",
        f"PYTHONPATH=. python -m {dotted}",
        "npm test --silent",
        "npm test 2>&1 | tail -15",
        "if [ -x bin/test ]; then bin/test; else sh run_tests.sh; fi",
        "nohup python -m unittest > /tmp/out.log 2>&1 & wait; cat /tmp/out.log",
        "coverage run -m unittest",
        '(python -m pytest -q 2>&1; echo "exit $?") | tee /tmp/pytest.log | tail -4',
        "set -o pipefail; pytest -q 2>&1 | tail -3",
        "bash run_tests.sh && echo PASSED || echo FAILED",
        "time python3 -m unittest -q",
        "timeout 60 bash -lc 'python -m pytest -q'",
        "find tests -name 'test_*.py' | xargs -n 1 python3 -m pytest -q",
        'for t in tests/test_*.py; do python -m pytest -q "$t" || break; done',
        "git stash -q && python -m pytest -q; git stash pop",
        'result=$(python -m unittest 2>&1); echo "$result" | tail -1',
        "python run_tests.py",
        "sudo make test",
    ]


def no_suite_runs(p: Project) -> list[str]:
    """Commands with the words of a test run in them."""
    return [
        "which pytest tox nox",
        "pip list 2>/dev/null | grep -i pytest",
        "python -m pytest --version",
        "make -n test",
        "cat run_tests.sh Makefile",
        "grep -rn unittest tests",
        "ls -l run_tests.sh",
        "echo 'next: run pytest -q'",
        f"python -m py_compile {p.module} {p.tests}",
        "git add -A && git commit -qm 'Repair it; pytest passes'; git log --oneline | head -3",
        "python -m pytest --collect-only -q",
        "# python -m unittest would be next\ngit status --short",
        "python3 -c 'import pytest; print(pytest.__version__)'",
        "find . -name 'test_*.py' | head; cat tox.ini",
    ]


def programs(p: Project) -> list[str]:
    body = f"from {p.dotted} import *\nprint({p.call})\n"
    line = body.strip().replace("\n", "; ")
    name = p.dotted.rpartition(".")[2]
    return [
        f'python3 <<< "{line}"',
        f'echo "{line}" | python3',
        f"cat > /tmp/t.py <<'EOF'\n{body}EOF\nPYTHONPATH=. python3 /tmp/t.py",
        f"cat > repro.py <<'EOF'\n{body}EOF\npython repro.py; rm repro.py",
        f"python -m {p.dotted}",
        f"python {p.module}",
        f"cd {p.module.rpartition('/')[0]} && python -c 'import {name}; print({name}.__file__)'",
        f"python - <<'EOF' 2>&1 | tail -3\nimport sys\nsys.path.insert(0, '.')\n{body}EOF",
        f'x=$(python3 -c "{line}"); echo "got: $x"',
        f'bash -c "python3 -c \\"{line}\\""',
        f"python3 -m timeit -n 1 -s 'from {p.dotted} import *' \"{p.call}\"",
        f"printf '%s\\n' \"{line}\" > /tmp/a.py && PYTHONPATH=$PWD python3 /tmp/a.py",
        f'timeout 10 python3 -c "{line}" || echo failed',
        "node -e 'console.log(3 * 4)'",
        f"python3 -c \"import ast; ast.parse(open('{p.module}').read()); print('parses')\"",
    ]


def failures(p: Project) -> list[str]:
    """Commands in which something goes wrong, which the exit code tells or does not."""
    return [
        "cat setup.py | head -20",
        "cat pyproject.toml 2>/dev/null; true",
        "ls src || ls",
        "cd src && ls; pwd",
        "grep -q nothing_like_it README.md",
        "grep -rn nothing_like_it . | head",
        f"diff {p.module} {p.other} > /dev/null",
        "test -f setup.py && echo there",
        "[ -d src ] || echo 'no src'",
        "(exit 3)",
        "python3 -c 'import sys; sys.exit(2)'",
        "timeout 1 sleep 3",
        "set -o pipefail; cat nothing.txt | head -3",
        "! ls nothing",
        "python3 -c 'raise ValueError(1)' 2>&1 | tail -1",
        "pip install -q nothing-like-it-0 2>&1 | tail -2; echo done",
        "sudo apt-get install -y ripgrep",
        "if cat nothing.txt; then echo yes; else echo no; fi",
        "cat nothing.txt & wait",
        "git checkout no-such-branch; git status --short",
        "awk -f nothing.awk README.md || true",
        'echo "$(cat nothing.txt)"',
        "bash -c 'ls nothing; exit 0'",
        "rg --files | head -5",
        "echo 'ERROR: no such file or directory'",
        "kill -0 99999",
        "python3 - <<'EOF'\nprint(1 / 0)\nEOF",
        "make lint",
    ]


def asides() -> list[str]:
    """Commands that change the project, or nearly, without repairing it."""
    return [
        "touch CHANGES.md",
        "mkdir -p /tmp/work && cp -r . /tmp/work/",
        "chmod +x run_tests.sh",
        "echo '*.pyc' >> .gitignore",
        "printf '\\nRun `pytest -q` after changes.\\n' >> README.md",
        "cat >> README.md <<'EOF'\n\nTo test:\n\n    pytest -q\n    cat tests/*.py\nEOF",
        "mkdir notes && mv notes /tmp/",
        "find . -name __pycache__ -prune -exec rm -rf {} +",
        "python -m compileall -q .",
        "git config user.name agent",
        "git stash list",
        "rm -rf .pytest_cache build",
        "ln -s README.md README",
        "export PYTHONPATH=/workspace",
        "ls > /tmp/files.txt; cat /tmp/files.txt",
        "cat README.md > /dev/null",
        "date; whoami; uname -a 2>&1",
    ]
