// Package release installs Helm charts in clusters that have no kubelet: what a chart
// renders is applied as it is, and what it would run in pods runs as processes of this
// machine.
//
// A process gets what its pod would get: the arguments and the environment of the
// chart, a token of its ServiceAccount and so the chart's rights, and its volumes as
// folders that follow their Secrets and ConfigMaps as kubelets do, in one step. A
// chart with a wrong flag, a missing right or a wrong volume fails here as it would
// in a cluster.
//
// What differs: every container port is a loopback port of its own, an address in an
// argument (":8443") is rewritten to it, and so are the paths of mounted volumes. A
// Service is a listener on loopback that passes connections to the pods behind it;
// one that a webhook configuration names becomes an ExternalName, since API servers
// resolve those by themselves. Deployments, Jobs and pods are never applied.
package release
