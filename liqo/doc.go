// Package liqo peers two clusters through Liqo, and removes the peering again. Neither cluster
// needs a kubeconfig of the other, unless the provider has no agent.
//
// A placement is what one provider contributes to a reservation. The broker announces it to both
// agents. Each agent stores what it is told in an instruction: a ReservationInstruction in the
// consumer's cluster, and a ProviderInstruction in the provider's cluster.
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
// Peering observes the objects of a placement, asks package plan for the next actions, and carries
// them out with the packages handshake, network, drain and guard. Peering keeps no essential
// state in memory: after a crash it continues from the objects that exist.
//
// The agent changes and deletes only objects with its managed-by label, and the replicas that a
// consumer leaves behind. It may use objects that others made, but does not change them.
package liqo
