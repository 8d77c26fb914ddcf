#!/usr/bin/env bash
# A Docker engine for a Debian-like machine without an init system, and the image that tasks run in.
#
#   scripts/docker_engine.sh up       install what is missing, start an engine, build the image
#   scripts/docker_engine.sh engine   the same without the image
#   scripts/docker_engine.sh image    only the image, in whatever engine answers
#   scripts/docker_engine.sh status   exit 0 when an engine runs containers
#   scripts/docker_engine.sh down     stop the engine that `up` started, and nothing else
#
# Every call may be repeated. The engine gets no bridge and no firewall rules: sandboxes have no network.
# LEGO_DOCKER_HOME holds its state, DOCKER_HOST (a unix socket) says where it listens.
set -euo pipefail

state=${LEGO_DOCKER_HOME:-/var/lib/lego-docker}
export DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}
socket=${DOCKER_HOST#unix://}
recipe=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../harness_adapters/lego_harness/sandbox/image.recipe
image=lego/py:$(sha256sum <"$recipe" | cut -c1-12)

say() { echo "docker_engine: $*" >&2; }
fail() { say "$*"; exit 3; }
answers() { timeout 5 docker version >/dev/null 2>&1; }
as_root() { [ "$(id -u)" = 0 ] || fail "$1 needs root; run: sudo $0 $2"; }

need() { # packages that are not installed yet, without what they recommend
  local missing=()
  for package in "$@"; do
    dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  as_root "installing ${missing[*]}" up
  say "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends "${missing[@]}" >/dev/null
}

keep_alive() { # runs under tini: restarts a crashed engine, whose pid file would look alive for long
  # The engine runs itself twice more for every container; collecting garbage is a fifth of what a start costs.
  export GOGC=400
  local engine=
  trap 'touch "$state/down"; kill "$engine" 2>/dev/null; wait "$engine"; exit 0' TERM
  for _ in $(seq 20); do
    rm -f "$state"/engine.pid "$state"/run/containerd/containerd.pid "$socket"
    dockerd --config-file "$state/engine.json" --data-root "$state/data" --exec-root "$state/run" \
      --pidfile "$state/engine.pid" --host "unix://$socket" >>"$state/engine.log" 2>&1 &
    engine=$!
    wait "$engine" || true
    [ ! -e "$state/down" ] || return 0
    sleep 0.5
  done
}

start() {
  answers && { say "an engine answers at $DOCKER_HOST"; return; }
  need docker.io containerd runc tini
  as_root "starting an engine" up
  mkdir -p "$state" "$(dirname "$socket")"
  rm -f "$state/down"
  echo '{"live-restore": true, "bridge": "none", "iptables": false, "shutdown-timeout": 5,
         "log-driver": "none"}' >"$state/engine.json"
  setsid tini -s -- "${BASH_SOURCE[0]}" keep-alive </dev/null >/dev/null 2>&1 9>&- &
  echo $! >"$state/supervisor.pid"
  for _ in $(seq 1200); do answers && return; sleep 0.1; done
  tail -n 3 "$state/engine.log" >&2
  fail "the engine did not answer within two minutes; see $state/engine.log"
}

sources() { # this machine's own Debian or Ubuntu sources
  for file in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
    if [ -s "$file" ]; then echo "$file"; fi
  done
}

build() {
  docker image inspect "$image" >/dev/null 2>&1 && { say "image $image is there"; return; }
  need mmdebstrap
  as_root "building $image" image
  local packages
  packages=$(grep -v '^#' "$recipe" | paste -sd,)
  say "building $image"
  # shellcheck disable=SC1091,SC2046
  (. /etc/os-release && mmdebstrap --quiet --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='chroot "$1" useradd --uid 1000 --home-dir /home/agent --shell /bin/bash agent' "$VERSION_CODENAME" - $(sources)) |
    docker import --change 'LABEL lego.image=py' --change 'CMD ["sleep", "infinity"]' - "$image" >/dev/null
}

prove() { docker run --rm --network none --init "$image" python3 -c pass || fail "the engine answers but runs no container"; }

stop() {
  local pid
  pid=$(cat "$state/supervisor.pid" 2>/dev/null) || fail "no engine was started here"
  docker ps -aq --filter label=lego.run | xargs -r docker rm -f >/dev/null || true
  kill -TERM "$(cat "/proc/$pid/task/$pid/children" | tr -d ' ')" 2>/dev/null || true
  for _ in $(seq 600); do [ -e "/proc/$pid/exe" ] || break; sleep 0.1; done
  # An engine that crashed left mounts behind: its own data, network namespaces; the deepest goes first.
  local mount
  while read -r mount; do umount "$mount" 2>/dev/null || true; done \
    < <(awk -v under="$state/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
  rm -f "$state/supervisor.pid"
}

case ${1:-} in
  up | engine | image | down)
    if [ "$(id -u)" = 0 ]; then mkdir -p "$state"; exec 9>"$state/lock"; flock -w 600 9 || fail "another call holds $state/lock"; fi ;;&
  up) start; build; prove ;;
  engine) start ;;
  image) answers || fail "no Docker engine answers at $DOCKER_HOST"; build; prove ;;
  status) answers && prove ;;
  down) stop ;;
  keep-alive) keep_alive ;;
  *) sed -n '2,11p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
