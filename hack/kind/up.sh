#!/usr/bin/env bash
# up.sh NAME... makes a kind cluster of one node for each name, with context kind-NAME.
# KIND_NODE_IMAGE names the node image. If it is not set, the image is kind's own if a registry
# answers, otherwise one that is built on this machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

programs kind kubectl
"$kit/dockerd.sh" start

# kubelet changes the first three for the whole machine, and several nodes need more watches of
# files. down.sh restores the old values.
if [[ $EUID -eq 0 ]]; then
  if [[ ! -f $state/sysctl ]]; then
    sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops fs.inotify.max_user_instances fs.inotify.max_user_watches >"$state/sysctl"
  fi
  sysctl -qw fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288
fi

made_here=false
if [[ -z ${KIND_NODE_IMAGE:-} ]] && offline; then
  KIND_NODE_IMAGE=$("$kit/node-image.sh")
  made_here=true
fi

configuration() {
  echo "{kind: Cluster, apiVersion: kind.x-k8s.io/v1alpha4,"
  echo " networking: {disableDefaultCNI: $made_here},"
  echo " kubeadmConfigPatches: ['{kind: KubeletConfiguration, failCgroupV1: false}']}"
}

for name; do
  if kind get clusters -q | grep -qx "$name"; then continue; fi
  say "cluster $name"
  # shellcheck disable=SC2086 # nothing if there is no image to name
  configuration | quietly kind create cluster --name "$name" ${KIND_NODE_IMAGE:+--image=$KIND_NODE_IMAGE} --wait 180s --config -
done
for name; do quietly kubectl --context "kind-$name" wait --for=condition=Ready node --all --timeout=180s; done
say "clusters $* are ready, KUBECONFIG=$KUBECONFIG"
