package v1alpha1

// Types of conditions of the CRDs in this package.
const (
	// ConditionReady is true when an object serves its purpose: a ResourceRequest has a Ready
	// virtual node, an Advertisement is published, a ProviderInstruction is enforced.
	ConditionReady = "Ready"
	// ConditionCertificateValid of an Advertisement is true until the agent's client
	// certificate for the broker expires.
	ConditionCertificateValid = "CertificateValid"
	// ConditionReservationsCovered of an Advertisement is true while the capacity of all
	// reservations is free or used by them.
	ConditionReservationsCovered = "ReservationsCovered"
	// ConditionComplete of an Advertisement is true while the broker's decisions use the whole
	// offer.
	ConditionComplete = "Complete"
	// ConditionGuarded of an Advertisement is true while admission holds other clusters to their
	// reservations. Agents with --peering-mode=none do not set it.
	ConditionGuarded = "Guarded"
	// ConditionLiqoReady of an Advertisement is true while Liqo in this cluster has a supported
	// version and enforces what other clusters reserved. It is Unknown when the agent cannot
	// read that. Agents with --peering-mode=none do not set it.
	ConditionLiqoReady = "LiqoReady"
	// ConditionConfigured of an Advertisement is true while the agent's configuration file is
	// in force. It is false while the file is refused; the last valid configuration then stays
	// in force. Agents without a file do not set it.
	ConditionConfigured = "Configured"
	// ConditionPriced of an Advertisement is true while the prices on nodes, from labels or
	// OpenCost, are known and in force. It is false when prices are missing or invalid. Agents
	// whose configuration names no such source do not set it.
	ConditionPriced = "Priced"
	// ConditionBrokerCompatible of an Advertisement is true while the broker's API version is
	// at most one minor version newer or older than the agent's.
	ConditionBrokerCompatible = "BrokerCompatible"
	// ConditionReserved is true while the broker holds capacity for a ResourceRequest.
	ConditionReserved = "Reserved"
	// ConditionChanged shows the outcome of the last edit of a ResourceRequest: true when it is
	// in force, Unknown while the provider has not answered, and false when the broker or the
	// provider refused it and the former amounts stay in force. It is absent before the first
	// edit. On a ProviderInstruction it is this cluster's own answer.
	ConditionChanged = "Changed"
	// ConditionProviderReachable is false while the broker receives nothing from the provider.
	// It is absent until the provider is silent for the first time.
	ConditionProviderReachable = "ProviderReachable"
	// ConditionHealthy is false while the provider, the slice, the virtual node or pods on it
	// have a problem. It is absent until the node is Ready for the first time.
	ConditionHealthy = "Healthy"
	// ConditionPeered is true when this cluster has an identity at the provider.
	ConditionPeered = "Peered"
	// ConditionNodeReady is true when the virtual node is Ready.
	ConditionNodeReady = "NodeReady"
	// ConditionNetworkConnected is true while Liqo's gateways connect this cluster's network
	// with the provider's. It is absent where the agent does not connect networks.
	ConditionNetworkConnected = "NetworkConnected"
	// ConditionOffloading is true when new pods of the named namespaces can run on the virtual
	// node, according to the request's offloading strategy. Pods created earlier stay where
	// they are.
	ConditionOffloading = "Offloading"
	// ConditionPeeringSkipped is true when the agent runs with --peering-mode=none: capacity is
	// reserved, but the clusters do not peer.
	ConditionPeeringSkipped = "PeeringSkipped"
	// ConditionAcknowledged is true when this cluster has agreed to provide the capacity.
	ConditionAcknowledged = "Acknowledged"
	// ConditionPreempted is true when the placement of a ResourceRequest must make room for a
	// higher priority.
	ConditionPreempted = "Preempted"
	// ConditionRecalled is true when the provider wants the placement of a ResourceRequest
	// back, or has taken it back.
	ConditionRecalled = "Recalled"
	// ConditionLending is false while a LendingPolicy grants nothing new to any cluster.
	ConditionLending = "Lending"
	// ConditionEnding is true once the end of the virtual node is known. Before the end its
	// message says what can be done about it. It is false when the end was cancelled.
	ConditionEnding = "Ending"
	// ConditionDrained describes the pods on the virtual node of an ended placement: false
	// while they are evicted, true when the node can be deleted.
	ConditionDrained = "Drained"
	// ConditionHeld is true when placeholder pods keep all unused capacity of a placement. It
	// is absent when only the ledger holds the capacity.
	ConditionHeld = "Held"
	// ConditionWithinGrant of a ProviderInstruction is false while the pods of its placement
	// use more than was granted. It is absent until that happens for the first time.
	ConditionWithinGrant = "WithinGrant"
	// ConditionGranted is true when the ResourceSlice of a placement is granted.
	ConditionGranted = "Granted"
)

// Reasons of conditions and events. They do not change between versions.
const (
	ReasonPending       = "Pending"
	ReasonReserved      = "Reserved"
	ReasonQueued        = "Queued"
	ReasonChanged       = "Changed"
	ReasonChangeRefused = "ChangeRefused"
	// ReasonProviderSilent means that the broker receives nothing from the provider.
	ReasonProviderSilent = "ProviderSilent"
	// ReasonProviderBack means that the provider was silent and is back.
	ReasonProviderBack = "ProviderBack"
	// ReasonMigrating means that the provider is silent and another one is about to take over.
	ReasonMigrating = "Migrating"
	// ReasonMigrated means that the provider was silent and another one has taken over.
	ReasonMigrated = "Migrated"
	// ReasonAwaitingProvider means that a change waits for the answer of the provider's agent.
	ReasonAwaitingProvider = "AwaitingProvider"
	ReasonQueueFull        = "QueueFull"
	// ReasonOverBudget means that this cluster exceeds its budget at the broker.
	ReasonOverBudget        = "OverBudget"
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
	// ReasonHandshakeRefused means that this cluster refused a message of the provider that no
	// honest provider sends.
	ReasonHandshakeRefused = "HandshakeRefused"
	ReasonPeeringSkipped   = "PeeringSkipped"
	ReasonAwaitingNode     = "AwaitingNode"
	ReasonNodeReady        = "NodeReady"
	ReasonNodeNotReady     = "NodeNotReady"
	// ReasonNetworkConnected and the next two belong to NetworkConnected.
	ReasonNetworkConnected = "NetworkConnected"
	// ReasonNetworkPending means that the connection is being set up.
	ReasonNetworkPending = "NetworkPending"
	// ReasonNetworkFailed means that the gateways do not reach each other.
	ReasonNetworkFailed     = "NetworkFailed"
	ReasonOffloading        = "Offloading"
	ReasonNamespaceNotOpted = "NamespaceNotOptedIn"
	// ReasonOffloadingConflict means that a namespace is already offloaded with another
	// strategy.
	ReasonOffloadingConflict = "OffloadingConflict"
	// ReasonProviderExcluded means that a user's own NamespaceOffloading does not select the
	// provider.
	ReasonProviderExcluded = "ProviderExcluded"
	// ReasonSameNameNotAllowed means that a namespace did not opt in to EnforceSameName.
	ReasonSameNameNotAllowed = "SameNameNotAllowed"
	ReasonReleasing          = "Releasing"
	ReasonReleased           = "Released"
	// ReasonReclaiming means that the consumer did not release the placement in time, so the
	// provider takes it back.
	ReasonReclaiming = "Reclaiming"
	// ReasonFailed means that a granted reservation ends because no cluster can serve it any
	// longer.
	ReasonFailed       = "Failed"
	ReasonPublished    = "Published"
	ReasonAcknowledged = "Acknowledged"
	// ReasonCovered and ReasonReservedCapacityTaken belong to ReservationsCovered.
	ReasonCovered               = "Covered"
	ReasonReservedCapacityTaken = "ReservedCapacityTaken"
	// ReasonComplete, ReasonShortened (the advertisement was too large) and ReasonLeftOut (the
	// broker leaves resources out of its decisions) belong to Complete.
	ReasonComplete  = "Complete"
	ReasonShortened = "Shortened"
	ReasonLeftOut   = "LeftOut"
	// ReasonGuarded, ReasonGuardDisabled (the chart's admission policies for peers are off) and
	// ReasonWebhookDisabled (the agent's webhook is off, so that peers can get certificates of any
	// groups, and excess pods start before they are evicted) belong to Guarded.
	ReasonGuarded         = "Guarded"
	ReasonGuardDisabled   = "GuardDisabled"
	ReasonWebhookDisabled = "WebhookDisabled"
	// ReasonConfigured and ReasonConfigurationRefused belong to Configured.
	ReasonConfigured           = "Configured"
	ReasonConfigurationRefused = "ConfigurationRefused"
	// ReasonPriced and the next three belong to Priced.
	ReasonPriced              = "Priced"
	ReasonPriceInvalid        = "PriceInvalid"
	ReasonPriceMissing        = "PriceMissing"
	ReasonOpenCostUnavailable = "OpenCostUnavailable"
	// ReasonLiqoReady and those up to ReasonLimitsNotEnforced belong to LiqoReady.
	// ReasonLiqoHidden means that the agent cannot read Liqo's version or whether Liqo enforces
	// limits.
	ReasonLiqoReady  = "LiqoReady"
	ReasonLiqoHidden = "LiqoHidden"
	// ReasonLiqoMissing means that Liqo is not installed in this cluster.
	ReasonLiqoMissing = "LiqoMissing"
	// ReasonLiqoVersionUnsupported and ReasonLiqoVersionUntested mean that Liqo has another
	// version than the agent is tested with. The agent does not work with the former, and may
	// work with the latter.
	ReasonLiqoVersionUnsupported = "LiqoVersionUnsupported"
	ReasonLiqoVersionUntested    = "LiqoVersionUntested"
	// ReasonLiqoNotRunning means that a Deployment of Liqo has no available pod.
	ReasonLiqoNotRunning = "LiqoNotRunning"
	// ReasonLimitsNotEnforced means that Liqo lets other clusters use more than they reserved.
	ReasonLimitsNotEnforced = "LimitsNotEnforced"
	// ReasonBrokerCompatible and the next two belong to BrokerCompatible.
	ReasonBrokerCompatible = "BrokerCompatible"
	ReasonBrokerTooOld     = "BrokerTooOld"
	ReasonBrokerTooNew     = "BrokerTooNew"
	ReasonInsufficient     = "InsufficientCapacity"
	ReasonOutsideBounds    = "OutsideBounds"
	ReasonGranted          = "Granted"
	// ReasonApplied means that the agent uses the current spec.
	ReasonApplied = "Applied"
	ReasonLending = "Lending"
	ReasonHeld    = "Held"
	// ReasonHoldIncomplete means that placeholder pods do not fit because other pods took their
	// room.
	ReasonHoldIncomplete = "HoldIncomplete"
	// ReasonExceedsGrant means that pods use, or used, more than was granted. The agent evicts
	// the newest ones.
	ReasonExceedsGrant = "ExceedsGrant"
	// ReasonWithinGrant means that pods exceeded the grant earlier and fit again.
	ReasonWithinGrant = "WithinGrant"

	ReasonCertificateValid    = "CertificateValid"
	ReasonCertificateExpiring = "CertificateExpiring"
	ReasonCertificateInvalid  = "CertificateInvalid"
	ReasonRenewalFailing      = "CertificateRenewalFailing"
	// ReasonDraining is set by a provider that withdraws its acknowledgement because it stops
	// lending, and by a consumer whose pods leave a virtual node.
	ReasonDraining = "Draining"
	ReasonHealthy  = "Healthy"
	// ReasonProviderUnreachable means that Liqo does not reach the provider's API server.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonSliceDenied means that the provider denies a slice that it had granted.
	ReasonSliceDenied = "SliceDenied"
	// ReasonPodsRejected means that pods on the virtual node have no copy at the provider.
	ReasonPodsRejected = "PodsRejected"
	// ReasonUnreachable is set by a consumer that gives a placement up because it cannot reach
	// the provider's API server.
	ReasonUnreachable = "Unreachable"
	// ReasonDrainBlocked means that evictions are refused, for example by a
	// PodDisruptionBudget.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainOverdue means that the time for evictions is over and the remaining pods are
	// deleted.
	ReasonDrainOverdue = "DrainOverdue"
	// ReasonDrained means that no pods are left.
	ReasonDrained = "Drained"
	// ReasonDrainedPartly means that the node is deleted although the fate of some pods is
	// unknown.
	ReasonDrainedPartly = "DrainedPartly"

	// ReasonExpiring means that the duration ends soon.
	ReasonExpiring = "Expiring"
	// ReasonExpired means that the duration has ended.
	ReasonExpired = "Expired"
	// ReasonDeleted means that the request was deleted.
	ReasonDeleted = "Deleted"
)

// Finalizers and labels of the agent.
const (
	// ReleaseFinalizer keeps a ResourceRequest until its reservation is released and its
	// virtual node is gone.
	ReleaseFinalizer = "liqo.io/broker-release"
	// PeeringFinalizer keeps an instruction until everything created for it in this cluster is
	// gone.
	PeeringFinalizer = "liqo.io/broker-peering"

	// ManagedByLabel marks every object that the agent created. The agent deletes no other
	// objects.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByValue is the value of ManagedByLabel.
	ManagedByValue = "liqo-resource-broker"

	// ReservationLabel carries the reservation's name on instructions, slices and virtual
	// nodes.
	ReservationLabel = "broker.fluidos.eu/reservation"
	// RequestLabel and RequestNamespaceLabel on a virtual node name the ResourceRequest that it
	// serves. They outlive the reservation: a request that is created again under its name has
	// nodes with the same labels. The agent sets them; see RequestNodeLabels for their values.
	RequestLabel          = "broker.fluidos.eu/request"
	RequestNamespaceLabel = "broker.fluidos.eu/request-namespace"
	// NamespaceLabelPrefix plus the name of a namespace is a label on virtual nodes. Pods of
	// that namespace may use the node's reservation. The agent sets it.
	NamespaceLabelPrefix = "namespace.broker.fluidos.eu/"
	// SharedLabel marks the virtual node of a reservation without a ResourceRequest. Pods of
	// every offloaded namespace may use it.
	SharedLabel = "broker.fluidos.eu/shared"
	// EndingTaint, with effect NoSchedule, is on virtual nodes whose placement has ended. Its
	// value is the reservation's name.
	EndingTaint = "broker.fluidos.eu/ending"
	// PlaceholderLabel marks a placeholder pod. Its value is the placement whose capacity the
	// pod keeps.
	PlaceholderLabel = "broker.fluidos.eu/placeholder"
	// OffloadLabel, with value "true" on a namespace, allows ResourceRequests of other
	// namespaces to offload it.
	OffloadLabel = "liqo.io/broker-offload"
	// SameNameLabel, with value "true" on a namespace, allows it to keep its own name at
	// providers. If a provider refuses the name, it accepts no new namespaces of this cluster
	// until the request is deleted, so not every tenant may ask for it.
	SameNameLabel = "liqo.io/broker-same-name"
)
