// Package installation checks whether the agent can use the Liqo that is installed in this
// cluster.
package installation
