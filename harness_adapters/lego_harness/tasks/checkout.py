"""A published image that has the project checked out, as SWE-bench's have, as surroundings of a task.

    the image's working folder ─ Dockerfile ─▶ a link to the workspace;  /checkout: what lay there, without its .git
    /checkout ─ setup.sh ─▶ the workspace: what was built in place, and nothing that the task's own files have

A package that is installed in place is then imported from the agent's work, and the only history that it can find is the
workspace's sealed one. Invariants: no git reads what the image calls a repository, nothing of it leaves the engine;
whatever other clone the image holds is refused as in any image (`history_left.py`). Files that the last layer removes
are still in those below it, and out of reach: a container sees the layers merged, and nobody inside may mount.
Builds nothing.
"""

from __future__ import annotations

import re

from lego_harness.errors import UsageError
from lego_harness.sandbox.base import BUILD, WORKSPACE
from lego_harness.text import one_line

_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,299}", re.ASCII)
_KEPT = "/checkout"
_DOCKERFILE = f"""# The project that the image has checked out becomes the workspace; its history is left behind.
FROM {{image}}
USER root
SHELL ["/bin/sh", "-c"]
RUN if [ -e .git ] || [ -L .git ] || [ -e pyproject.toml ] || [ -e setup.py ]; then \\
    place="$PWD" && rm -rf .git && cd / && mv "$place" {_KEPT} && chmod -R a+rX {_KEPT} && \\
    {{{{ [ "$place" = {WORKSPACE} ] || ln -s {WORKSPACE} "$place"; }}}}; fi
ENV PATH=/opt/miniconda3/envs/testbed/bin:$PATH
"""
"""The last line is where such images keep the project's Python, by a convention of SWE-bench's."""
_SETUP = f"""# What was built where the image has the project checked out, and nothing that is there already.
[ ! -d {_KEPT} ] || tar -C {_KEPT} -cf - . | tar -xf - --skip-old-files --no-same-owner
"""


def checkout_files(image: str) -> dict[str, bytes]:
    """Files for the `environment/` of a task that is to run in `image`; raises UsageError for what is no image's name."""
    if not _IMAGE.fullmatch(image):
        raise UsageError(f"docker_image: got {one_line(image, limit=80)}, expected the name of an image")
    texts = {
        BUILD: _DOCKERFILE.format(image=image),
        ".dockerignore": "repo\n",
        "setup.sh": _SETUP,
    }
    return {name: text.encode() for name, text in texts.items()}
