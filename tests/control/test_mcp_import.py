"""The server starts without what it does not use, and whoever wants that afterwards gets it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

STARTS = """
import json, sys
from pathlib import Path
from lego_control.mcp_import import starting

with starting(without=("rich", "uvicorn")):
    from lego_control.server import build

    build(Path())
unused = ("httpx2._client", "rich.console", "rich.logging", "uvicorn.main")
imported = [name for name in unused if name in sys.modules]
import httpx2, pydantic, rich.console, uvicorn

class Late(pydantic.BaseModel):
    n: int

late = pydantic.TypeAdapter(Late | None)
print(json.dumps({
    "imported": imported,
    "client": httpx2.AsyncClient.__name__,
    "is_built": [Late.__pydantic_complete__, late.pydantic_complete],
    "n": late.validate_python({"n": "7"}).n,
}))
"""


def test_what_a_server_on_stdio_does_not_use_is_not_imported_and_is_there_when_it_is_wanted() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told == {"imported": [], "client": "AsyncClient", "is_built": [True, True], "n": 7}
