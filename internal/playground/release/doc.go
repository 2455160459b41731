// Package release installs Helm charts in clusters without a kubelet. It applies the objects of a chart unchanged,
// and runs the containers of its pods as local processes.
//
// A process gets what its pod would get: the arguments and the environment from the chart, a token of its
// ServiceAccount and so its rights, and its volumes as folders. The folders follow their Secrets and ConfigMaps
// atomically, as with a kubelet. A chart with a wrong flag, a missing right or a wrong volume fails as it would in a
// real cluster.
//
// There are differences. Every container port is a loopback port of its own; addresses to listen on (":8443") and
// paths of mounted volumes in arguments are rewritten. A Service is a loopback listener that forwards connections to
// its pods. If a webhook configuration refers to a Service, it becomes an ExternalName, because API servers resolve
// such Services themselves. Deployments, Jobs and pods are never applied.
package release
