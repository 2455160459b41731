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
//	ResourceSlice <placement>    ─ Liqo ──▶ ResourceSlice (replica), granted by guard.Decide
//	VirtualNode, Node <placement>           Quota, ShadowPods
//	NamespaceOffloading                     Namespace <name>-<consumer>
//
// Where networks are connected, each side describes its own to the other, whenever it changes:
//
//	Configuration <provider>     ◀── CIDRs, address, key ───  Configuration <consumer>
//	GatewayClient <provider>     ─── CIDRs, key ──────────▶   GatewayServer <consumer>
//	PublicKey <provider>         ════════ tunnel ══════════   PublicKey <consumer>
//
// The plan package decides what to do next. Peering observes, asks it, and carries out its
// actions with the packages handshake, network, drain and guard. Nothing that matters is
// kept in memory: after a crash the same plans continue from the objects that are there.
//
// The agent changes and deletes only objects with its managed-by label, and replicas that a
// consumer leaves behind. It uses objects that a person made, and leaves them alone.
package liqo
