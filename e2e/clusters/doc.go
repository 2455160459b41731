// Package clusters is the environment of clusters that run containers: kind's, or any
// others that a kubeconfig leads to. It installs cert-manager, Liqo and the product as
// an administrator does, with Helm.
package clusters
