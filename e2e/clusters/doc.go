// Package clusters runs the scenarios of package e2e on clusters that run containers. These can be clusters of
// kind, or any others in a kubeconfig. The package installs cert-manager, Liqo and the product with Helm, as an
// administrator would.
package clusters
