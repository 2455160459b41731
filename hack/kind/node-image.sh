#!/usr/bin/env bash
# Makes a node image for kind from Debian's packages and Go modules, and prints its name. It
# asks no registry. If there is an image of the same sources already, it only prints the name.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
exec 3>&1 >&2 # only the name goes to the caller

sources=("$kit"/node/* "$kit"/node-image.sh "$kit"/go.* "$root"/hack/kubernetes/go.* "$root"/hack/coredns/*)
tag=$(digest "${sources[@]}")
image=liqo-resource-broker/kind-node:$tag
base=liqo-resource-broker/kind-debian:$tag

# debian writes the files of a small Debian with systemd and containerd to debian.tar, from the
# Debian mirror that this machine uses.
debian() {
  [[ ! -f $state/debian.tar ]] || return 0
  if ! command -v debootstrap >/dev/null; then
    quietly apt-get update
    quietly apt-get install -y --no-install-recommends debootstrap
  fi
  local mirror dir=$state/debian
  mirror=$(apt-cache policy base-files | awk '$2 ~ /^http/ {print $2; exit}')
  rm -rf "$dir"
  quietly debootstrap --variant=minbase --include=systemd,systemd-sysv,containerd,containernetworking-plugins,conntrack,iptables,iproute2,ethtool,socat,procps,jq,ca-certificates bookworm "$dir" "$mirror"
  tar -C "$dir" --numeric-owner -cf "$state/debian.tar.new" --exclude='./dev/*' --exclude='./var/cache/apt/*' \
    --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' .
  mv "$state/debian.tar.new" "$state/debian.tar"
  rm -rf "$dir"
}

# node_base builds the node image, still without the images of the control plane.
node_base() {
  local context=$state/node
  rm -rf "$context"
  cp -r "$kit/node" "$context"
  mkdir "$context/bin"
  ln "$state/debian.tar" "$context/"
  cp "$cache"/bin/{kubeadm,kubelet,kubectl} "$context/bin/"
  kubeadm version -o short >"$context/version"
  sed -i "s#@PAUSE@#$(grep /pause: <<<"$images")#" "$context/containerd.toml"
  quietly docker build -t "$base" "$context"
  rm -rf "$context"
}

# control_plane_image builds one of the images that kubeadm lists.
control_plane_image() {
  local image=$1 name=${1##*/} context
  name=${name%%:*}
  case $name in
  kube-proxy)
    context=$(mktemp -d "$state/image.XXXXXX")
    cp "$cache/bin/kube-proxy" "$kit/node/kube-proxy.Dockerfile" "$context/"
    quietly docker build -t "$image" --build-arg "DEBIAN=$base" -f "$context/kube-proxy.Dockerfile" "$context"
    rm -rf "$context"
    ;;
  pause)
    CGO_ENABLED=0 go build -ldflags "-s -w" -o "$state/pause" "$kit/node/pause.go"
    program_image "$image" "$state/pause"
    ;;
  *) IMAGE_USER=0 program_image "$image" "$cache/bin/$name" ;;
  esac
}

# node adds the images of the control plane to the node image's containerd.
node() {
  local container
  container=$(docker run -d --security-opt seccomp=unconfined --entrypoint sh "$base" -c 'containerd >/dev/null 2>&1 & sleep infinity')
  # shellcheck disable=SC2064 # of this container
  trap "docker rm -fv $container >/dev/null" EXIT
  for _ in $(seq 150); do
    if docker exec "$container" ctr version >/dev/null 2>&1; then break; fi
    sleep 0.2
  done
  # shellcheck disable=SC2086 # one word an image
  docker save $images | quietly docker exec -i "$container" ctr --namespace k8s.io images import \
    --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack --digests -
  docker exec "$container" sh -c 'kill $(pidof containerd); while pidof containerd >/dev/null; do sleep 0.1; done; rm -rf /tmp/* /run/containerd'
  quietly docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' --change 'CMD []' "$container" "$image"
}

if ! docker image inspect "$image" >/dev/null 2>&1; then
  say "node image: Debian"
  debian
  say "node image: Kubernetes (minutes, the first time)"
  programs etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kubeadm kubelet kube-proxy coredns
  images=$(kubeadm config images list --kubernetes-version "$(kubeadm version -o short)" 2>/dev/null)
  node_base
  for control_plane in $images; do control_plane_image "$control_plane"; done
  say "node image: put together"
  node
  quietly docker image prune --force
fi
echo "$image" >&3
