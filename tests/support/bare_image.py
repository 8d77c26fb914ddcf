"""An image with a shell and what sandboxes need, and neither Python nor node: made of the base image's files."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from lego_harness.sandbox import docker_engine

_PACK = """set -e
programs="/bin/sh /bin/bash /bin/tar /bin/chmod /bin/sleep /bin/cat /bin/ls /bin/true /usr/bin/env"
libraries=$(for program in $programs; do ldd $program; done | grep -o '/[^ )]*' | sort -u)
mkdir -p /tmp/image/workspace && cp --parents --dereference $programs $libraries /etc/passwd /tmp/image
tar --create --file=- --directory=/tmp/image ."""


@contextmanager
def bare_image() -> Iterator[str]:
    """Its tag; removed afterwards."""
    tag = f"lego/bare:{uuid.uuid4().hex[:12]}"
    pack = ["docker", "run", "--rm", "--network=none", docker_engine.default_image(), "sh", "-c", _PACK]
    packed = subprocess.run(pack, check=True, capture_output=True).stdout
    subprocess.run(["docker", "import", "-", tag], input=packed, check=True, capture_output=True)
    try:
        yield tag
    finally:
        subprocess.run(["docker", "rmi", "--force", tag], check=True, capture_output=True)
