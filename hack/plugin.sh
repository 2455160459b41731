#!/usr/bin/env bash
# plugin.sh vX.Y.Z [FOLDER] builds an archive of the kubectl plugin for each of PLATFORMS, and the manifest for Krew
# that lists them, in FOLDER (by default dist). The same commit always gives the same archives bit for bit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1?usage: $0 vX.Y.Z [FOLDER]}
out=$(mkdir -p "${2:-dist}" && cd "${2:-dist}" && pwd)
module=github.com/mehdiazizian/liqo-resource-broker
release=${RELEASE_URL:-https://$module/releases/download/$version}
created=$(git log -1 --format=%ct)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed "s|{{version}}|$version|" hack/krew/liqo-broker.yaml >"$out/liqo-broker.yaml"
for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}; do
  os=${platform%/*} arch=${platform#*/} program=kubectl-broker
  [[ $os == windows ]] && program=kubectl-broker.exe
  folder=$work/$os-$arch archive=kubectl-broker-$os-$arch.tar.gz
  mkdir "$folder"
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false -o "$folder/$program" \
    -ldflags "-s -w -X $module/internal/version.linked=$version" ./cmd/kubectl-broker
  cp LICENSE hack/krew/kubectl_complete-broker hack/krew/kubectl_complete-liqo_broker "$folder"
  chmod 755 "$folder"/kubectl*
  tar --create --directory "$folder" --sort=name --mtime="@$created" --owner=0 --group=0 --numeric-owner --mode=u+w,go-w . | gzip --no-name >"$out/$archive"
  cat >>"$out/liqo-broker.yaml" <<END
    - selector: {matchLabels: {os: $os, arch: $arch}}
      uri: $release/$archive
      sha256: $(sha256sum "$out/$archive" | cut -d ' ' -f 1)
      bin: $program
END
done
