// Package clusters runs the scenarios of package e2e on clusters that run containers: kind's, or any others in a
// kubeconfig. It installs cert-manager, Liqo and the product with Helm, like an administrator.
package clusters
