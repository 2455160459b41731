// Package release installs Helm charts in clusters without a kubelet. It applies the objects of a chart unchanged,
// and runs the containers of its pods as local processes.
//
// A process gets what its pod would get: the arguments and the environment from the chart, a token of its
// ServiceAccount with the rights that the chart grants, and its volumes as folders. When a Secret or ConfigMap
// changes, all files in its folder change at once, as with a kubelet. Therefore a chart with a wrong flag, a missing
// right or a wrong volume fails as it would in a real cluster.
//
// A release differs from one in a real cluster in the following ways:
//   - Every container port is a different loopback port. Addresses to listen on (":8443") and paths of mounted volumes
//     are replaced in arguments.
//   - A local process listens for each Service and forwards connections to the Service's pods.
//   - If a webhook configuration refers to a Service, the Service becomes an ExternalName, because API servers resolve
//     such Services themselves.
//   - Deployments, Jobs and pods are not applied.
package release
