// Package e2e holds the scenarios that are shown and tested across several clusters. A scenario is written once and
// runs on an Environment: the playground's clusters, or any others in a kubeconfig.
package e2e
