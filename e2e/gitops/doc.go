// Package gitops installs the product in the playground's clusters with the real Argo CD. It uses the manifests in
// hack/gitops and the charts of the checkout.
package gitops
