// Package e2e holds what is shown and tested over several clusters. A scenario is
// written once and runs on an Environment: the playground's clusters, or any others
// that a kubeconfig leads to.
package e2e
