// Package handshaketest makes the keys, certificates and certificate requests of a cluster's
// Liqo for tests.
package handshaketest
