# The scripts in this folder source this file. It says where everything is, and how to reach
# Docker.
# shellcheck shell=bash

kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$kit/../.." && pwd)
cache=${LRB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/liqo-resource-broker}
state=$cache/kind
mkdir -p "$state"
export PATH=$cache/bin:$PATH KUBECONFIG=$state/kubeconfig

# The daemon of dockerd.sh is used once its socket exists, or if no other Docker answers.
own_docker=unix://$state/docker.sock
if [[ -S $state/docker.sock ]] || ! docker info >/dev/null 2>&1; then
  export DOCKER_HOST=$own_docker DOCKER_BUILDKIT=0 # Debian's client has no other builder
fi

say() { printf '%4ds  %s\n' "$SECONDS" "$*"; }

# programs NAME... builds programs at the versions that hack/ pins, into a folder of the PATH.
programs() { (cd "$root" && go run ./cmd/playground build "$@"); }

# offline tells whether images must be built on this machine, because no registry answers.
# OFFLINE=true or false decides; if it is not set, offline tries a registry.
offline() {
  if [[ -z ${OFFLINE:-} ]]; then
    OFFLINE=true
    if curl -sS -o /dev/null -m 5 https://registry.k8s.io/v2/ 2>/dev/null; then OFFLINE=false; fi
    export OFFLINE
  fi
  [[ $OFFLINE == true ]]
}

# digest prints a digest of the contents of files.
digest() { sha256sum "$@" | cut -d ' ' -f 1 | sha256sum | cut -c 1-12; }

# quietly runs a command whose output matters only if it fails.
quietly() {
  local log=$state/output.log
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; echo "failed: $*" >&2; return 1; }
}

# program_image IMAGE FILE [ARGUMENT...] makes an image of one static program, unless the image
# exists already. The program is on the PATH in the image, and may write to /tmp. It runs as
# user IMAGE_USER, by default 65532.
program_image() {
  local image=$1 file=$2 source dir entrypoint argument
  source=$(sha256sum "$file" | cut -d ' ' -f 1)
  if [[ $(docker image inspect --format '{{.Config.Labels.source}}' "$image" 2>/dev/null) == "$source" ]]; then return; fi
  shift 2
  dir=$(mktemp -d "$state/image.XXXXXX")
  mkdir -p "$dir/root/usr/bin" && mkdir -m 1777 "$dir/root/tmp"
  cp "$file" "$dir/root/usr/bin/"
  entrypoint=\"/usr/bin/${file##*/}\"
  for argument; do entrypoint+=", \"$argument\""; done
  cat >"$dir/Dockerfile" <<EOF
FROM scratch
COPY root/ /
ENV PATH=/usr/bin
LABEL source=$source
USER ${IMAGE_USER:-65532}
ENTRYPOINT [$entrypoint]
EOF
  quietly docker build -t "$image" "$dir"
  rm -rf "$dir"
}
