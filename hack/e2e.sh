#!/usr/bin/env bash
# Runs the end-to-end tests with real containers, see docs/testing.md. It makes kind clusters
# for them, unless E2E_KUBECONFIG names a kubeconfig of existing clusters.
#
# PREVIOUS is the commit or tag whose charts and images the test of an upgrade begins with; by
# default the last release. The script passes its arguments to "go test".
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/kind/env.sh"
cd "$root"

# sources_tag prints a tag that changes with the files that images are built from.
sources_tag() {
  git -C "$1" ls-files --cached --others --exclude-standard -- '*.go' '*.yaml' go.mod go.sum |
    (cd "$1" && xargs -d '\n' sha256sum) | sha256sum | cut -c 1-12
}

# product SOURCE TAG builds the images of a checkout and puts them into the clusters.
product() {
  local source=$1 tag=$2 out=$state/product/$2 name
  if [[ ! -f $out/agent.tar ]]; then
    say "images of $tag"
    mkdir -p "$out"
    (cd hack/images && quietly go run . -source "$source" -base scratch -tag "$tag" -out "$out.new" ./cmd/broker ./cmd/agent)
    rm -rf "$out" && mv "$out.new" "$out"
  fi
  for name in broker rome paris; do
    quietly kind load image-archive --name "$name" "$out/$(if [[ $name == broker ]]; then echo broker; else echo agent; fi).tar"
  done
}

# previous_version checks out the version that an upgrade begins with.
previous_version() {
  local previous=${PREVIOUS:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
  if [[ -z $previous ]]; then
    say "there is no earlier version: the upgrade goes from this one to itself"
    return
  fi
  rm -rf "$state/previous"
  git clone --quiet --no-checkout . "$state/previous"
  git -C "$state/previous" checkout --quiet "$(git rev-parse "$previous^{commit}")"
  E2E_PREVIOUS_TAG=$(sources_tag "$state/previous")
  product "$state/previous" "$E2E_PREVIOUS_TAG"
  export E2E_PREVIOUS_TAG E2E_PREVIOUS_CHARTS=$state/previous/charts
}

if [[ -z ${E2E_KUBECONFIG:-} ]]; then
  hack/kind/up.sh broker rome paris
  if offline; then hack/kind/images.sh broker rome paris; fi
  E2E_TAG=$(sources_tag .)
  product "$root" "$E2E_TAG"
  previous_version
  export E2E_TAG E2E_KUBECONFIG=$KUBECONFIG
fi
go test -tags clusters -v -count 1 -timeout 60m ./e2e/clusters "$@"
