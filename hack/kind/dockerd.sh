#!/usr/bin/env bash
# dockerd.sh start|stop starts or stops a Docker daemon for these clusters, on a machine where
# no Docker answers. It must run as root. The daemon keeps all its files in one folder, and
# disturbs no other Docker.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
pidfile=$state/docker.pid

start() {
  [[ $EUID -eq 0 ]] || { echo "no Docker answers: start it, or run this as root" >&2; exit 1; }
  if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
    say "installing docker.io"
    quietly apt-get update
    quietly apt-get install -y --no-install-recommends docker.io iptables
  fi
  local arguments=(
    --data-root "$state/docker" --exec-root "$state/docker-run" --pidfile "$pidfile" -H "$own_docker"
    # Without this, Docker would ask the machine's name servers for names that no cluster knows.
    # With it, such names fail at once.
    --dns 127.0.0.1
  )
  if ! may_raise_limits; then
    arguments+=(--add-runtime "limited=$kit/runc-limited.sh" --default-runtime limited)
  fi
  rm -f "$pidfile"
  setsid dockerd "${arguments[@]}" >"$state/dockerd.log" 2>&1 </dev/null &
  for _ in $(seq 150); do
    if docker info >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  tail -n 20 "$state/dockerd.log" >&2
  exit 1
}

# may_raise_limits tells whether root has the capability CAP_SYS_RESOURCE (number 24) on this
# machine.
may_raise_limits() { (((0x$(sed -n 's/^CapBnd:\s*//p' /proc/self/status) >> 24) & 1)); }

stop() {
  [[ -f $pidfile ]] || return 0
  local pid
  pid=$(<"$pidfile")
  kill "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
  rm -f "$pidfile" "$state/docker.sock"
}

case ${1-} in
start) docker info >/dev/null 2>&1 || start ;;
stop) stop ;;
*) echo "usage: $0 start|stop" >&2; exit 2 ;;
esac
