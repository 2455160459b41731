// Package liqo peers two clusters through Liqo without either holding a
// credential of the other, and takes the peering down again.
//
// A pair of clusters has up to two peerings, one in each direction. Both live in
// one tenant namespace a cluster:
//
//	consumer                                provider
//	namespace liqo-tenant-<provider>        namespace liqo-tenant-<consumer>
//	                                        Secret liqo-nonce
//	    ◀── challenge: nonce, namespace ───
//	    ─── answer: key, CSR, signature ──▶
//	                                        Tenant <consumer>
//	    ◀── credentials: certificate ──────
//	Identity controlplane-<provider>
//	ResourceSlice <placement>    ─ Liqo ──▶ ResourceSlice (replica), granted by Grant
//	VirtualNode, Node <placement>           Quota, ShadowPods
//	NamespaceOffloading                     Namespace <name>-<consumer>
//
// Where networks are connected, each side says what its own is, as often as that changes:
//
//	Configuration <provider>     ◀── CIDRs, address, key ───  Configuration <consumer>
//	GatewayClient <provider>     ─── CIDRs, key ──────────▶   GatewayServer <consumer>
//	PublicKey <provider>         ════════ tunnel ══════════   PublicKey <consumer>
//
// What to do next is decided by PlanConsumer and PlanProvider, which are pure: they
// take what was observed and return actions and a state. Peering observes and
// carries out. Nothing that matters is kept in memory: after a crash the same
// plans continue from the objects that are there.
//
// Only objects with the agent's managed-by label are changed or deleted, and what a
// consumer replicated here and does not take away; what a person made is used.
package liqo
