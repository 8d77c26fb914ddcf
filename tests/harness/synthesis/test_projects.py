"""What a source archive holds is found, or refused in words; what was fetched is what was asked for."""

from __future__ import annotations

import hashlib
import json
import tarfile
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from lego_harness.errors import SetupError, UsageError
from lego_harness.synthesis.project import read_project
from lego_harness.synthesis.sdists import MAX_BYTES, pinned
from tests.support.archives import FILES, archive


def test_an_archives_modules_and_tests_are_told_apart(tmp_path: Path) -> None:
    project = read_project(str(archive(tmp_path / "shop-1.0.tar.gz")))
    assert (project.packages, project.tests, project.has_src) == (("shop",), "tests", False)
    assert project.modules == ("shop/__init__.py", "shop/prices.py")
    assert set(project.test_files()) == {"test_prices.py", "test_others.py"}
    assert {name: data.decode() for name, data in project.files.items()} == FILES


def test_what_lies_in_src_is_found_and_put_on_the_path_of_its_tests(tmp_path: Path) -> None:
    inside = "src/shop/tests/conftest.py"
    moved = {
        name.replace("shop/", "src/shop/").replace("tests/", "src/shop/tests/"): text
        for name, text in FILES.items()
    }
    gone = dict.fromkeys(FILES, None)
    conftest = "import os\nfrom __future__ import annotations\n"
    path = archive(tmp_path / "shop-1.0.tar.gz", {**gone, **moved, inside: conftest})
    project = read_project(str(path))
    assert (project.tests, project.modules) == (
        "src/shop/tests",
        ("src/shop/__init__.py", "src/shop/prices.py"),
    )
    text = project.test_files()["conftest.py"].decode()
    compile(text, "conftest.py", "exec")
    assert '"src"' in text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (dict.fromkeys((n for n in FILES if n.startswith("tests/")), None), "no folder of tests"),
        (dict.fromkeys((n for n in FILES if n.startswith("shop/")), None), "found no Python package"),
        ({"data": "x" * (MAX_BYTES + 1)}, "expected a smaller project"),
        ({f"data/{n}": "" for n in range(700)}, "expected a smaller project"),
        ({"../out": ""}, "cannot be unpacked"),
        (
            {"pluggy.egg-info/top_level.txt": "pluggy\n", "pluggy/__init__.py": ""},
            "belongs to the test runner",
        ),
    ],
)
def test_an_archive_that_is_of_no_use_is_refused(
    files: dict[str, str | None], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        read_project(str(archive(tmp_path / "shop-1.0.tar.gz", files)))


def test_links_of_an_archive_are_left_out_and_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("shop-1.0/shop/secrets.py")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    assert "shop/secrets.py" not in read_project(str(archive(tmp_path / "shop-1.0.tar.gz", {}, link))).files
    (tmp_path / "torn-1.0.tar.gz").write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(UsageError, match="cannot be unpacked"):
        read_project(str(tmp_path / "torn-1.0.tar.gz"))


@pytest.mark.parametrize("said", ["no-version", "a==", "==1", "gone-1.0.tar.gz", "a==1;x", "../a==1"])
def test_what_names_no_release_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="expected NAME==VERSION"):
        pinned(said)


class Index(BaseHTTPRequestHandler):
    """One project, `shop`, as an index lists it (PEP 691)."""

    data: ClassVar[bytes] = b""
    sha256: ClassVar[str] = ""
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        file = {
            "filename": "shop-1.0.tar.gz",
            "url": "../../files/shop-1.0.tar.gz",
            "hashes": {"sha256": self.sha256},
        }
        known = {"/simple/shop/": json.dumps({"files": [file]}).encode(), "/files/shop-1.0.tar.gz": self.data}
        self.send_response(200 if self.path in known else 404)
        self.end_headers()
        self.wfile.write(known.get(self.path, b""))

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[type[Index]]:
    Index.data, Index.asked = archive(tmp_path / "shop-1.0.tar.gz").read_bytes(), []
    Index.sha256 = hashlib.sha256(Index.data).hexdigest()
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield Index
        server.shutdown()


def test_a_release_is_fetched_once(index: type[Index]) -> None:
    for _ in range(2):
        assert read_project("shop==1.0").modules == ("shop/__init__.py", "shop/prices.py")
    assert index.asked == ["/simple/shop/", "/files/shop-1.0.tar.gz"]


def test_a_release_that_is_not_there_or_is_another_is_told_of(index: type[Index]) -> None:
    with pytest.raises(UsageError, match="no source archive"):
        read_project("shop==2.0")
    with pytest.raises(SetupError, match="is the package index reachable"):
        read_project("nothing==1.0")
    index.sha256 = "0" * 64
    with pytest.raises(SetupError, match="expected 0000"):
        read_project("shop==1.0")
