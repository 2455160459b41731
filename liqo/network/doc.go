// Package network connects the networks of two clusters through Liqo's gateways.
//
// Each side tells the other its CIDRs, the address of its gateway and its public key, as
// often as one of them changes. A Connector observes what is there, and carries out the
// actions of a plan.
package network
