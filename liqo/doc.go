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
//
// # Traps of Liqo
//
// Liqo 1.2 behaves in ways that the agent must handle. Each item names its tests. Tests
// below e2e run Liqo itself, those below liqo a stand-in.
//
//   - A resource that is left out of a slice stays granted. It is requested and granted as 0.
//     (TestReservationIsExtendedInPlaceAndReleased)
//   - A virtual node with a reused name waits for the leases of the first. Every reservation and
//     placement has a name of its own. (TestDeletedPeeringObjectsAreRestored)
//   - The consumer loses the right to remove its replicas together with the Tenant, and both sides
//     hang. The Tenant is deleted last. If it was deleted first, it is created again, or the
//     provider removes the replicas. (TestProviderTakesWhatIsNotGivenBack, TestPeeringHeals)
//   - A drained Tenant keeps the Renew, and the consumer's Identity waits for the Renew. All
//     replicas are removed. If an Identity cannot remove its own, the agent points it at a
//     namespace that no provider has, so that Liqo forgets them.
//     (TestConsumerPartsFromUnhelpfulProvider, TestProviderReclaimsCapacityOfALostConsumer)
//   - The Secret liqo-remote-certificate outlives its Tenant and blocks another signing request.
//     It is deleted before a Tenant is created. (TestKeyChangesOnlyWhileUnused)
//   - Liqo evaluates a clusterSelector for each virtual node and applies it to the cluster. With
//     two nodes of one provider, it adds and removes the namespace in a loop, and kills pods. The
//     selector selects whole clusters, and the label of the node pins pods.
//     (TestReservationEndsWithoutAffectingItsSibling)
//   - If two virtual nodes are deleted at once, Liqo leaves their NamespaceMap behind. The agent
//     deletes it. (TestPlacementsThatLeaveTogetherLeaveNothing, TestHomeIsKeptWhileNeeded)
//   - Pods that were created before their namespace is offloaded stay in the cluster. The
//     namespace is offloaded before the peering begins. (TestConsumerHoldsAPlacement)
//   - The ForeignCluster outlives the peering, and comes back if it is deleted too early. It is
//     deleted last. (TestHomeIsKeptWhileNeeded)
//   - A slice cannot have the name of an existing node or slice. Names are random. The agent does
//     not change a slice that somebody else made, and the instruction says so.
//     (TestConsumerHoldsAPlacement, TestConsumerTakesAPlacementDown)
//   - Slices of class default are granted whatever they request, and a consumer may write the
//     status of its replica and so its quota. Admission policies refuse both.
//     (TestConsumerExceedsItsReservation)
//   - Liqo renews the certificates in Identities itself. Credentials older than the Identity are
//     not applied. (TestRenewedCertificateIsKept)
//   - The replicator changes its cached copy before it sends an update. If the update fails, for
//     example while a webhook restarts, it is never sent again. No webhook is called if only the
//     resources change, and the provider annotates an incomplete replica, so that it is sent
//     again. (TestPoliciesOnAPIServer, TestLostChangeIsSentAgain)
//   - A slice that is denied after it was accepted keeps quota, node and pods. The consumer
//     removes it, or the provider deletes its pods and the replica.
//     (TestRecordWritesADecisionOnce, TestProviderTakesWhatIsNotGivenBack)
//   - Slices, pods and namespaces wait for a dead provider, and retries are up to 16 minutes
//     apart. The agent gives the provider up and touches the objects, so that Liqo acts at once.
//     (TestConsumerGivesUpWhatItCannotTakeDown, TestConsumerGivesUpALostProvider)
//   - ShadowPods disappear before their pods have ended. A placement is gone only when its pods
//     are gone too. (TestProviderTakesWhatIsNotGivenBack)
package liqo
