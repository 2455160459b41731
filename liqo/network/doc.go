// Package network connects the networks of two clusters through Liqo's gateways.
//
// Each side sends the other its CIDRs, the address of its gateway and its public key, after every
// change. A Connector observes the connection and carries out the actions of a plan.
package network
