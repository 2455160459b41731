#!/usr/bin/env bash
# Deletes the clusters, stops the Docker daemon that dockerd.sh started, and restores the kernel
# settings that up.sh changed. Programs and images that were built stay; "down.sh --all" removes
# them too.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

if docker info >/dev/null 2>&1 && command -v kind >/dev/null; then
  # Delete only clusters in our kubeconfig: others of the same Docker belong to somebody else.
  for context in $(kubectl config get-contexts -o name 2>/dev/null | grep '^kind-' || true); do
    quietly kind delete cluster --name "${context#kind-}"
  done
fi
if [[ -f $state/docker.pid ]]; then
  docker network rm kind >/dev/null 2>&1 || true # with it go its firewall rules
  "$kit/dockerd.sh" stop
fi
if [[ -f $state/sysctl ]]; then
  sysctl -qp "$state/sysctl"
  rm "$state/sysctl"
fi
if [[ ${1-} == --all ]]; then rm -rf "$state"; fi
