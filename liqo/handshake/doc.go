// Package handshake gives a consumer an identity at a provider. The messages pass through the
// broker, which cannot use them as a credential.
//
// The package contains the messages of both sides, the mailbox that keeps the newest message
// of each step, and the checks of everything that a peer sends. It checks nonces before this
// cluster signs them, certificate requests before this cluster has them signed, and API
// servers and certificates before this cluster's Liqo uses them.
package handshake
