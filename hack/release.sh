#!/usr/bin/env bash
# release.sh vX.Y.Z publishes the images with that tag under REPOSITORY, and the charts, whose version must be
# X.Y.Z, in the folder charts beside REPOSITORY. For each of them it writes dist/NAME.digest and prints
# NAME=sha256:... It also writes the archives of the kubectl plugin and their Krew manifest to dist.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/kind/env.sh"
cd "$root"

tag=${1?usage: $0 vX.Y.Z}
repository=${REPOSITORY:-ghcr.io/mehdiazizian/liqo-resource-broker}
for chart in charts/*/Chart.yaml; do
  version=$(sed -n 's/^version: *//p' "$chart")
  if [[ $tag != "v$version" ]]; then
    echo "$chart has version $version, the tag is $tag: they have to be the same" >&2
    exit 1
  fi
done
charts=${repository%/*}/charts

programs helm >&2
rm -rf dist
make --no-print-directory images PUSH=true TAG="$tag" VERSION="$tag" REPOSITORY="$repository" PLATFORM="${PLATFORM:-linux/amd64,linux/arm64}" ${BASE:+BASE="$BASE"} >&2

hack/plugin.sh "$tag" >&2

for chart in broker agent; do
  helm package "charts/$chart" --destination dist >&2
done
for archive in dist/*.tgz; do
  name=$(basename "$archive" "-${tag#v}.tgz")
  # shellcheck disable=SC2086 # one option or none
  pushed=$(helm push "$archive" "oci://$charts" ${HELM_PUSH_OPTIONS:-} 2>&1)
  echo "$charts/$name@$(sed -n 's/^Digest: *//p' <<<"$pushed")" >"dist/$name.digest"
done

for file in dist/*.digest; do
  echo "$(basename "$file" .digest)=$(sed 's/.*@//' "$file")"
done
