// Package e2e contains scenarios across several clusters, which demos show and tests check. A scenario is written
// once and runs in an Environment: the clusters of the playground, or any others in a kubeconfig.
package e2e
