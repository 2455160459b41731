// Package installation tells whether Liqo in this cluster is one that the agent can use.
package installation
