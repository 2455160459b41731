#!/usr/bin/env bash
# images.sh NAME... puts the images that cert-manager, Liqo and the tests need into kind
# clusters that cannot pull them. It builds them from Go modules, under the names that charts
# and samples use.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

cert_manager=$(cd "$root/hack/certmanager" && go list -m -f '{{.Version}}' github.com/cert-manager/cert-manager)
liqo=$(cd "$root/hack/liqo" && go list -m -f '{{.Version}}' github.com/liqotech/liqo)
agnhost=$(sed -n 's/^ *image: //p' "$root/config/samples/apps_v1_deployment_pinned.yaml")
programs cert-manager liqo-controller-manager crd-replicator virtual-kubelet liqo-webhook agnhost

images=()
# image NAME PROGRAM [ARGUMENT...] makes an image and adds its name to images.
image() {
  images+=("$1")
  program_image "$@"
}
for component in controller cainjector webhook; do
  image "quay.io/jetstack/cert-manager-$component:$cert_manager" "$cache/bin/cert-manager" "$component"
done
for component in liqo-controller-manager crd-replicator virtual-kubelet; do
  image "ghcr.io/liqotech/$component:$liqo" "$cache/bin/$component"
done
mkdir -p "$state/bin"
cp "$cache/bin/liqo-webhook" "$state/bin/webhook" # as Liqo's chart calls it
image "ghcr.io/liqotech/webhook:$liqo" "$state/bin/webhook"
image "$agnhost" "$cache/bin/agnhost"

for name; do quietly kind load docker-image --name "$name" "${images[@]}"; done
say "images of cert-manager $cert_manager and Liqo $liqo are in $*"
