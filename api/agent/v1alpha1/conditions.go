package v1alpha1

// Conditions of the kinds in this package.
const (
	// ConditionReady is true when the object does what it is for: a
	// ResourceRequest has a Ready virtual node, an Advertisement is published, a
	// ProviderInstruction is enforced.
	ConditionReady = "Ready"
	// ConditionCertificateValid of an Advertisement is true while the certificate with
	// which the agent speaks to the broker has not expired.
	ConditionCertificateValid = "CertificateValid"
	// ConditionReservationsCovered of an Advertisement is true while what is kept for
	// reservations is free, or used by them.
	ConditionReservationsCovered = "ReservationsCovered"
	// ConditionComplete of an Advertisement is true while decisions of the broker know all
	// that this cluster offers.
	ConditionComplete = "Complete"
	// ConditionGuarded of an Advertisement is true while admission keeps other clusters to
	// what they reserved. An agent that does not peer has no such condition.
	ConditionGuarded = "Guarded"
	// ConditionLiqoReady of an Advertisement is true while Liqo in this cluster is one that
	// the agent works with and holds other clusters to what they reserved, and Unknown where
	// that cannot be read. An agent that shall not peer has no such condition.
	ConditionLiqoReady = "LiqoReady"
	// ConditionConfigured of an Advertisement is true while what the agent's configuration
	// file says is in force, and false while it is refused and what it said before holds.
	// An agent without a file has no such condition.
	ConditionConfigured = "Configured"
	// ConditionPriced of an Advertisement is true while the prices that its nodes name, in
	// labels or through OpenCost, are known and in force, and false while there are none or
	// some are wrong. An agent whose configuration names no such source has no such
	// condition.
	ConditionPriced = "Priced"
	// ConditionBrokerCompatible of an Advertisement is true while the broker speaks a version
	// of the API that this agent works with: at most one minor version newer or older.
	ConditionBrokerCompatible = "BrokerCompatible"
	// ConditionReserved is true while the broker holds capacity for a
	// ResourceRequest.
	ConditionReserved = "Reserved"
	// ConditionChanged tells of the last edit of a ResourceRequest: true when it is in
	// force, Unknown while the provider is asked, false when broker or provider refused it
	// and what was agreed before holds. Without an edit it is absent. On a
	// ProviderInstruction it is this cluster's own answer.
	ConditionChanged = "Changed"
	// ConditionProviderReachable is false while the broker hears nothing of the provider.
	// One that was never silent has no such condition.
	ConditionProviderReachable = "ProviderReachable"
	// ConditionHealthy is false while something is wrong with what was delivered: with the
	// provider, the slice, the virtual node or pods on it. Before the node was Ready there is
	// no such condition.
	ConditionHealthy = "Healthy"
	// ConditionPeered is true when this cluster holds an identity at the provider.
	ConditionPeered = "Peered"
	// ConditionNodeReady is true when the virtual node is Ready.
	ConditionNodeReady = "NodeReady"
	// ConditionNetworkConnected is true while Liqo's gateways connect the network of this
	// cluster with the provider's. Where the agent connects no networks there is no such
	// condition.
	ConditionNetworkConnected = "NetworkConnected"
	// ConditionOffloading is true when new pods of the named namespaces can run on the
	// virtual node, as the request's offloading strategy says. Pods that are made
	// earlier stay where they are.
	ConditionOffloading = "Offloading"
	// ConditionPeeringSkipped is true when the agent runs with
	// --peering-mode=none: capacity is reserved, nobody peers.
	ConditionPeeringSkipped = "PeeringSkipped"
	// ConditionAcknowledged is true when this cluster has accepted to provide.
	ConditionAcknowledged = "Acknowledged"
	// ConditionPreempted is true when the placement of a ResourceRequest has to make
	// room for a higher priority.
	ConditionPreempted = "Preempted"
	// ConditionRecalled is true when the provider of a ResourceRequest's placement wants it
	// back, or has taken it back.
	ConditionRecalled = "Recalled"
	// ConditionLending is false while a LendingPolicy grants nothing new to anybody.
	ConditionLending = "Lending"
	// ConditionEnding is true when it is known that the virtual node goes: ahead of the end,
	// with what can be done about it, and from the end on. False where that was taken back.
	ConditionEnding = "Ending"
	// ConditionDrained tells of pods on a virtual node whose placement has ended: false
	// while they are evicted, true when the node can go.
	ConditionDrained = "Drained"
	// ConditionHeld is true when placeholder pods keep all of a placement's capacity that
	// is not used. It is absent where nothing but the ledger holds it.
	ConditionHeld = "Held"
	// ConditionWithinGrant of a ProviderInstruction is false while the pods of its placement use
	// more than was granted. It is absent until they do so for the first time.
	ConditionWithinGrant = "WithinGrant"
	// ConditionGranted is true when the ResourceSlice of a placement is granted.
	ConditionGranted = "Granted"
)

// Reasons of conditions and events. They are stable.
const (
	ReasonPending       = "Pending"
	ReasonReserved      = "Reserved"
	ReasonQueued        = "Queued"
	ReasonChanged       = "Changed"
	ReasonChangeRefused = "ChangeRefused"
	// ReasonProviderSilent: the broker hears nothing of the provider.
	ReasonProviderSilent = "ProviderSilent"
	// ReasonProviderBack: it was silent, and is heard again.
	ReasonProviderBack = "ProviderBack"
	// ReasonMigrating: it is silent, and another one is about to take over.
	ReasonMigrating = "Migrating"
	// ReasonMigrated: it was silent, and another one has taken over.
	ReasonMigrated = "Migrated"
	// ReasonAwaitingProvider: a change waits for the provider's agent.
	ReasonAwaitingProvider  = "AwaitingProvider"
	ReasonQueueFull         = "QueueFull"
	ReasonPreempted         = "Preempted"
	ReasonNotice            = "PreemptionNotice"
	ReasonNoticeWithdrawn   = "NoticeWithdrawn"
	ReasonRecallNotice      = "RecallNotice"
	ReasonRecalled          = "Recalled"
	ReasonNoCandidate       = "NoCandidate"
	ReasonRefused           = "Refused"
	ReasonInvalid           = "Invalid"
	ReasonBrokerUnreachable = "BrokerUnreachable"
	ReasonPeering           = "Peering"
	ReasonPeered            = "Peered"
	// ReasonHandshakeRefused: the provider sent a message that this cluster refuses, since
	// no honest provider sends it.
	ReasonHandshakeRefused = "HandshakeRefused"
	ReasonPeeringSkipped   = "PeeringSkipped"
	ReasonAwaitingNode     = "AwaitingNode"
	ReasonNodeReady        = "NodeReady"
	ReasonNodeNotReady     = "NodeNotReady"
	// ReasonNetworkConnected and those that follow are of NetworkConnected.
	ReasonNetworkConnected = "NetworkConnected"
	// ReasonNetworkPending: something is awaited on the way there.
	ReasonNetworkPending = "NetworkPending"
	// ReasonNetworkFailed: the gateways do not reach each other.
	ReasonNetworkFailed     = "NetworkFailed"
	ReasonOffloading        = "Offloading"
	ReasonNamespaceNotOpted = "NamespaceNotOptedIn"
	// ReasonOffloadingConflict: a namespace is offloaded already, and otherwise.
	ReasonOffloadingConflict = "OffloadingConflict"
	// ReasonProviderExcluded: a NamespaceOffloading that a person made does not select
	// the provider.
	ReasonProviderExcluded = "ProviderExcluded"
	// ReasonSameNameNotAllowed: a namespace did not opt in to EnforceSameName.
	ReasonSameNameNotAllowed = "SameNameNotAllowed"
	ReasonReleasing          = "Releasing"
	ReasonReleased           = "Released"
	// ReasonReclaiming: the consumer did not give back in time, the provider takes it.
	ReasonReclaiming = "Reclaiming"
	// ReasonFailed is why a reservation ends that was granted and that no cluster can
	// serve any more.
	ReasonFailed       = "Failed"
	ReasonPublished    = "Published"
	ReasonAcknowledged = "Acknowledged"
	// ReasonCovered and ReasonReservedCapacityTaken are of ReservationsCovered.
	ReasonCovered               = "Covered"
	ReasonReservedCapacityTaken = "ReservedCapacityTaken"
	// ReasonComplete and those that follow are of Complete. ReasonShortened: the advertisement
	// was too large, ReasonLeftOut: the broker leaves resources out of its decisions.
	ReasonComplete  = "Complete"
	ReasonShortened = "Shortened"
	ReasonLeftOut   = "LeftOut"
	// ReasonGuarded and those that follow are of Guarded. ReasonGuardDisabled: the chart's
	// admission policies for peers are off, ReasonWebhookDisabled: the agent's webhook is, so
	// that the agent notices some attacks only after they began.
	ReasonGuarded         = "Guarded"
	ReasonGuardDisabled   = "GuardDisabled"
	ReasonWebhookDisabled = "WebhookDisabled"
	// ReasonConfigured and ReasonConfigurationRefused are of Configured.
	ReasonConfigured           = "Configured"
	ReasonConfigurationRefused = "ConfigurationRefused"
	// ReasonPriced and those that follow are of Priced.
	ReasonPriced              = "Priced"
	ReasonPriceInvalid        = "PriceInvalid"
	ReasonPriceMissing        = "PriceMissing"
	ReasonOpenCostUnavailable = "OpenCostUnavailable"
	// ReasonLiqoReady and those that follow are of LiqoReady. ReasonLiqoHidden: which
	// version it is, and whether it enforces limits, cannot be read.
	ReasonLiqoReady  = "LiqoReady"
	ReasonLiqoHidden = "LiqoHidden"
	// ReasonLiqoMissing: there is none in this cluster.
	ReasonLiqoMissing = "LiqoMissing"
	// ReasonLiqoVersionUnsupported and ReasonLiqoVersionUntested: it is another version than
	// that which the agent is tested with, and does not work with the agent, or may.
	ReasonLiqoVersionUnsupported = "LiqoVersionUnsupported"
	ReasonLiqoVersionUntested    = "LiqoVersionUntested"
	// ReasonLimitsNotEnforced: it lets other clusters use more than they reserved.
	ReasonLimitsNotEnforced = "LimitsNotEnforced"
	// ReasonBrokerCompatible and those that follow are of BrokerCompatible.
	ReasonBrokerCompatible = "BrokerCompatible"
	ReasonBrokerTooOld     = "BrokerTooOld"
	ReasonBrokerTooNew     = "BrokerTooNew"
	ReasonInsufficient     = "InsufficientCapacity"
	ReasonOutsideBounds    = "OutsideBounds"
	ReasonGranted          = "Granted"
	// ReasonApplied: the agent goes by what is written.
	ReasonApplied = "Applied"
	ReasonLending = "Lending"
	ReasonHeld    = "Held"
	// ReasonHoldIncomplete: placeholders find no room, because other pods have taken it.
	ReasonHoldIncomplete = "HoldIncomplete"
	// ReasonExceedsGrant: pods use, or used, more than was granted; the newest are evicted.
	ReasonExceedsGrant = "ExceedsGrant"
	// ReasonWithinGrant: they did, and fit again.
	ReasonWithinGrant = "WithinGrant"

	ReasonCertificateValid    = "CertificateValid"
	ReasonCertificateExpiring = "CertificateExpiring"
	ReasonCertificateInvalid  = "CertificateInvalid"
	ReasonRenewalFailing      = "CertificateRenewalFailing"
	// ReasonDraining is a provider's that takes back its acknowledgement because it
	// stops lending, and a consumer's whose pods leave a virtual node.
	ReasonDraining = "Draining"
	ReasonHealthy  = "Healthy"
	// ReasonProviderUnreachable: Liqo does not reach the provider's API server.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonSliceDenied: the provider does not grant what it had granted.
	ReasonSliceDenied = "SliceDenied"
	// ReasonPodsRejected: the provider does not take pods of the virtual node.
	ReasonPodsRejected = "PodsRejected"
	// ReasonUnreachable is a consumer's that gives a placement up because it cannot reach
	// the provider's API server.
	ReasonUnreachable = "Unreachable"
	// ReasonDrainBlocked: pods are refused to be evicted, by a PodDisruptionBudget for example.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainOverdue: the time to evict pods is over, those that are left are deleted.
	ReasonDrainOverdue = "DrainOverdue"
	// ReasonDrained: no pod is left.
	ReasonDrained = "Drained"
	// ReasonDrainedPartly: the node goes though pods are left of which nothing is heard.
	ReasonDrainedPartly = "DrainedPartly"

	// ReasonExpiring: the duration is over soon.
	ReasonExpiring = "Expiring"
	// ReasonExpired: the duration is over.
	ReasonExpired = "Expired"
	// ReasonDeleted: the request is deleted.
	ReasonDeleted = "Deleted"
)

// Finalizers and labels of the agent.
const (
	// ReleaseFinalizer keeps a ResourceRequest until its reservation is given
	// back and its virtual node is gone.
	ReleaseFinalizer = "liqo.io/broker-release"
	// PeeringFinalizer keeps an instruction until what was made for it in this
	// cluster is gone.
	PeeringFinalizer = "liqo.io/broker-peering"

	// ManagedByLabel marks every object the agent made; nothing else is deleted.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByValue is the value of ManagedByLabel.
	ManagedByValue = "liqo-resource-broker"

	// ReservationLabel carries the reservation's name on instructions, slices and
	// virtual nodes. Pods are pinned to a reservation by selecting on it.
	ReservationLabel = "broker.fluidos.eu/reservation"
	// NamespaceLabelPrefix and a namespace's name make the label of virtual nodes whose
	// reservation pods of that namespace may use. The agent sets it.
	NamespaceLabelPrefix = "namespace.broker.fluidos.eu/"
	// SharedLabel is on the virtual node of a reservation that no ResourceRequest stands
	// behind: pods of every offloaded namespace may use it.
	SharedLabel = "broker.fluidos.eu/shared"
	// EndingTaint is put, with effect NoSchedule, on a virtual node whose placement has
	// ended; its value is the reservation's name.
	EndingTaint = "broker.fluidos.eu/ending"
	// PlaceholderLabel names, on a pod that stands in for reserved capacity, the
	// placement that it does so for.
	PlaceholderLabel = "broker.fluidos.eu/placeholder"
	// OffloadLabel, with value "true" on a namespace, lets ResourceRequests of
	// other namespaces offload it.
	OffloadLabel = "liqo.io/broker-offload"
	// SameNameLabel, with value "true" on a namespace, lets it have its own name at
	// providers. A provider that refuses the name takes no new namespace of this cluster
	// until the request is deleted, so that is not for every tenant to ask for.
	SameNameLabel = "liqo.io/broker-same-name"
)
