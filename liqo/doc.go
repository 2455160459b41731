// Package liqo peers two clusters through Liqo, and removes the peering again. Neither cluster
// holds a credential of the other.
//
// A pair of clusters has up to two peerings, one in each direction. In each cluster, both
// peerings share one tenant namespace:
//
//	consumer                                provider
//	namespace liqo-tenant-<provider>        namespace liqo-tenant-<consumer>
//	                                        Secret liqo-nonce
//	    ◀── challenge: nonce, namespace ───
//	    ─── answer: key, CSR, signature ──▶
//	                                        Tenant <consumer>
//	    ◀── credentials: certificate ──────
//	Identity controlplane-<provider>
//	ResourceSlice <placement>    ─ Liqo ──▶ ResourceSlice (replica), granted by guard.Decide
//	VirtualNode, Node <placement>           Quota, ShadowPods
//	NamespaceOffloading                     Namespace <name>-<consumer>
//
// If networks are connected, each side describes its own to the other after every change:
//
//	Configuration <provider>     ◀── CIDRs, address, key ───  Configuration <consumer>
//	GatewayClient <provider>     ─── CIDRs, key ──────────▶   GatewayServer <consumer>
//	PublicKey <provider>         ════════ tunnel ══════════   PublicKey <consumer>
//
// The plan package decides what to do next. Peering observes, asks it, and carries out its
// actions with the packages handshake, network, drain and guard. Peering keeps no essential
// state in memory: after a crash the same plans continue from the objects that exist.
//
// The agent changes and deletes only objects with its managed-by label, and replicas that a
// consumer leaves behind. It uses other objects, but does not change them.
package liqo
