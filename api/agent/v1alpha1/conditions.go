package v1alpha1

// Types of conditions of the CRDs in this package.
const (
	// ConditionReady is true in the following cases:
	//
	//   - ResourceRequest: pods of its namespaces can use the virtual node.
	//   - ReservationInstruction: the placement is carried out.
	//   - ProviderInstruction: the capacity is kept for the consumer.
	//   - Advertisement: the broker has accepted it.
	//   - LendingPolicy: the agent applies it.
	//   - BurstPolicy: new pods that it selects are prepared for virtual nodes.
	ConditionReady = "Ready"
	// ConditionCovered of a BurstPolicy is true while its requests have room for all pods that wait,
	// or no pod waits.
	ConditionCovered = "Covered"
	// ConditionCertificateValid of an Advertisement is true until the agent's client
	// certificate for the broker expires.
	ConditionCertificateValid = "CertificateValid"
	// ConditionReservationsCovered of an Advertisement is true while all reserved capacity is free
	// or used by its reservations.
	ConditionReservationsCovered = "ReservationsCovered"
	// ConditionComplete of an Advertisement is true while the broker considers the whole
	// advertisement. It is false while parts are left out because the advertisement is too large or
	// names too many resources.
	ConditionComplete = "Complete"
	// ConditionLeaving of an Advertisement exists while LeavingUntilAnnotation is in force. It is
	// true once the broker knows that the agent is being uninstalled, and therefore places nothing
	// new here. It is false until then.
	ConditionLeaving = "Leaving"
	// ConditionGuarded of an Advertisement is true while admission policies and webhooks limit
	// other clusters to what they have reserved here. Agents with --peering-mode=none do not set
	// it.
	ConditionGuarded = "Guarded"
	// ConditionLiqoReady of an Advertisement is true while Liqo in this cluster has a supported
	// version and limits other clusters to what they have reserved. It is Unknown when the agent
	// may not read Liqo's Deployments. Agents with --peering-mode=none do not set it.
	ConditionLiqoReady = "LiqoReady"
	// ConditionConfigured of an Advertisement is true while the agent's configuration file is in
	// force. It is false while the file is invalid; the last valid configuration then stays in
	// force. Agents without a file do not set it.
	ConditionConfigured = "Configured"
	// ConditionPriced of an Advertisement is true while the agent knows the prices of nodes, from
	// labels or OpenCost, and uses them. It is false when prices are missing or invalid. Agents set
	// it only if their configuration names one of these sources.
	ConditionPriced = "Priced"
	// ConditionBrokerCompatible of an Advertisement is true while the broker's API version is
	// at most one minor version newer or older than the agent's.
	ConditionBrokerCompatible = "BrokerCompatible"
	// ConditionReserved is true while the broker holds capacity for a ResourceRequest.
	ConditionReserved = "Reserved"
	// ConditionChanged shows the outcome of the last edit of a ResourceRequest. It is true when the
	// new amounts and duration are in force, and Unknown while the provider has not answered. It is
	// false when the broker or the provider refused the edit, so that the previous amounts and
	// duration stay in force. It is absent before the first edit. On a ProviderInstruction it shows
	// whether this cluster accepted the change.
	ConditionChanged = "Changed"
	// ConditionProviderReachable of a ResourceRequest is false while the broker receives nothing
	// from the provider's agent. It is absent until this happens for the first time.
	ConditionProviderReachable = "ProviderReachable"
	// ConditionHealthy is false while something is wrong with the provider, the ResourceSlice, the
	// virtual node, or pods on that node. It is absent until the node is Ready for the first time.
	ConditionHealthy = "Healthy"
	// ConditionPeered is true when this cluster has an identity at the provider, with which Liqo
	// acts there.
	ConditionPeered = "Peered"
	// ConditionNodeReady is true when the virtual node is Ready.
	ConditionNodeReady = "NodeReady"
	// ConditionNetworkConnected is true while Liqo's gateways connect this cluster's network with
	// the provider's. It is absent if the agent runs with networking disabled.
	ConditionNetworkConnected = "NetworkConnected"
	// ConditionOffloading is true when new pods of the request's namespaces can be scheduled to the
	// virtual node, as the request's offloading strategy says. Pods that were created earlier stay
	// where they are.
	ConditionOffloading = "Offloading"
	// ConditionPeeringSkipped is true when the agent runs with --peering-mode=none: capacity is
	// reserved, but the clusters do not peer. While it is true on an Advertisement, only clusters
	// that do not peer either can reserve here.
	ConditionPeeringSkipped = "PeeringSkipped"
	// ConditionAcknowledged of a ProviderInstruction is true when this cluster has agreed to
	// provide the capacity.
	ConditionAcknowledged = "Acknowledged"
	// ConditionPreempted of a ResourceRequest is true when its placement must make room for a
	// request of a higher priority, and afterwards while it waits for capacity again.
	ConditionPreempted = "Preempted"
	// ConditionRecalled of a ResourceRequest is true when the provider has asked for its capacity
	// back, until another provider serves the request.
	ConditionRecalled = "Recalled"
	// ConditionIdle of a ResourceRequest is true while nobody uses its capacity, and after the capacity
	// was released for this reason. It is false once the capacity is used again, and absent before it
	// was idle for the first time.
	ConditionIdle = "Idle"
	// ConditionLending of a LendingPolicy is false while the policy grants nothing new to any
	// cluster.
	ConditionLending = "Lending"
	// ConditionEnding is true once it is known that the virtual node will be removed. Its message
	// says when and, before the end of a duration, how to keep the capacity. It is false when the
	// end was called off.
	ConditionEnding = "Ending"
	// ConditionDrained tells whether the virtual node of an ended placement is empty: it is false
	// while pods are evicted, and true when the node can be deleted.
	ConditionDrained = "Drained"
	// ConditionHeld of a ProviderInstruction is true when placeholder pods occupy all capacity of
	// the placement that its own pods do not use. It is absent without placeholder pods.
	ConditionHeld = "Held"
	// ConditionWithinGrant of a ProviderInstruction is false while the pods of its placement use
	// more than was granted. On the consumer's objects it is false once the provider has evicted
	// such pods. It is absent until this happens for the first time.
	ConditionWithinGrant = "WithinGrant"
	// ConditionReceiptValid is false if the last receipt of the broker for the placement was
	// missing or wrong. It is absent otherwise.
	ConditionReceiptValid = "ReceiptValid"
	// ConditionGranted of a ProviderInstruction is true when the ResourceSlice of the placement is
	// granted.
	ConditionGranted = "Granted"
)

// Reasons of conditions and events. They do not change between versions.
const (
	ReasonPending = "Pending"
	// ReasonQuoteHeld means that the broker holds the capacity of a Quote.
	ReasonQuoteHeld = "QuoteHeld"
	// ReasonQuoteTaken means that a ResourceRequest has taken over a Quote.
	ReasonQuoteTaken = "QuoteTaken"
	// ReasonAwaitingQuote means that a ResourceRequest waits until the Quote in spec.quote is held.
	ReasonAwaitingQuote = "AwaitingQuote"
	// ReasonQuoteEnded means that a ResourceRequest cannot take over the Quote in spec.quote,
	// because the broker no longer holds its capacity.
	ReasonQuoteEnded    = "QuoteEnded"
	ReasonReserved      = "Reserved"
	ReasonQueued        = "Queued"
	ReasonChanged       = "Changed"
	ReasonChangeRefused = "ChangeRefused"
	// ReasonProviderSilent means that the broker receives nothing from the provider.
	ReasonProviderSilent = "ProviderSilent"
	// ReasonProviderBack means that the broker hears again from a provider that was silent.
	ReasonProviderBack = "ProviderBack"
	// ReasonMigrating means that another provider is about to take over, because the present one is
	// silent or its virtual node is no longer Ready.
	ReasonMigrating = "Migrating"
	// ReasonMigrated means that another provider has taken over.
	ReasonMigrated = "Migrated"
	// ReasonProviderLost is the reason with which the broker gives up the placement on a silent
	// provider after another one has taken over.
	ReasonProviderLost = "ProviderLost"
	// ReasonProviderForgotten is why the broker gave up the placement on a provider that an
	// administrator removed from the broker.
	ReasonProviderForgotten = "ProviderForgotten"
	// ReasonAwaitingProvider means that a change waits for the answer of the provider's agent.
	ReasonAwaitingProvider = "AwaitingProvider"
	ReasonQueueFull        = "QueueFull"
	// ReasonOverBudget means that this cluster uses more of the broker than
	// BrokerConfig.spec.memberBudget allows.
	ReasonOverBudget        = "OverBudget"
	ReasonPreempted         = "Preempted"
	ReasonNotice            = "PreemptionNotice"
	ReasonNoticeWithdrawn   = "NoticeWithdrawn"
	ReasonRecallNotice      = "RecallNotice"
	ReasonRecalled          = "Recalled"
	ReasonIdle              = "Idle"
	ReasonInUse             = "InUse"
	ReasonNoCandidate       = "NoCandidate"
	ReasonRefused           = "Refused"
	ReasonInvalid           = "Invalid"
	ReasonBrokerUnreachable = "BrokerUnreachable"
	ReasonPeering           = "Peering"
	ReasonPeered            = "Peered"
	// ReasonHandshakeRefused means that this cluster refused a message of the peering handshake. A
	// correct provider would not send such a message.
	ReasonHandshakeRefused = "HandshakeRefused"
	ReasonPeeringSkipped   = "PeeringSkipped"
	// ReasonProvisioning means that the provider creates nodes for the placement.
	ReasonProvisioning = "Provisioning"
	ReasonAwaitingNode = "AwaitingNode"
	ReasonNodeReady    = "NodeReady"
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNetworkConnected means that the gateways of the two clusters are connected.
	ReasonNetworkConnected = "NetworkConnected"
	// ReasonNetworkPending means that the connection of the networks is being set up.
	ReasonNetworkPending = "NetworkPending"
	// ReasonNetworkFailed means that the gateways of the two clusters do not reach each other.
	ReasonNetworkFailed     = "NetworkFailed"
	ReasonOffloading        = "Offloading"
	ReasonNamespaceNotOpted = "NamespaceNotOptedIn"
	// ReasonOffloadingConflict means that a namespace is already offloaded with another strategy
	// than the request asks for.
	ReasonOffloadingConflict = "OffloadingConflict"
	// ReasonProviderExcluded means that a namespace has a NamespaceOffloading made by a user, which
	// does not select the provider.
	ReasonProviderExcluded = "ProviderExcluded"
	// ReasonSameNameNotAllowed means that a request asks for EnforceSameName, and a namespace lacks
	// the label that allows it.
	ReasonSameNameNotAllowed = "SameNameNotAllowed"
	ReasonReleasing          = "Releasing"
	ReasonReleased           = "Released"
	// ReasonReclaiming means that the consumer did not release the placement in time, so the
	// provider takes it back.
	ReasonReclaiming = "Reclaiming"
	// ReasonFailed means that a reservation that had capacity ends because no cluster can serve it
	// any longer.
	ReasonFailed       = "Failed"
	ReasonPublished    = "Published"
	ReasonUninstalling = "Uninstalling"
	ReasonAcknowledged = "Acknowledged"
	// ReasonCovered and ReasonReservedCapacityTaken are reasons of the condition
	// ReservationsCovered.
	ReasonCovered               = "Covered"
	ReasonReservedCapacityTaken = "ReservedCapacityTaken"
	// ReasonComplete and ReasonShortened are reasons of the condition Complete. Shortened means that
	// the agent left out parts because the advertisement was too large.
	ReasonComplete  = "Complete"
	ReasonShortened = "Shortened"
	// ReasonGuarded, ReasonPolicyMissing, ReasonGuardDisabled and ReasonWebhookDisabled are reasons
	// of the condition Guarded. PolicyMissing means that one of the chart's admission policies is not
	// in force. GuardDisabled means that the chart's admission policies for peers are off.
	// WebhookDisabled means that the agent's webhook is off: peers can then get client certificates
	// with any groups, and pods beyond a grant run until the agent evicts them.
	ReasonGuarded         = "Guarded"
	ReasonPolicyMissing   = "PolicyMissing"
	ReasonGuardDisabled   = "GuardDisabled"
	ReasonWebhookDisabled = "WebhookDisabled"
	// ReasonConfigured and ReasonConfigurationRefused are reasons of the condition Configured.
	ReasonConfigured           = "Configured"
	ReasonConfigurationRefused = "ConfigurationRefused"
	// ReasonPriced, ReasonPriceInvalid, ReasonPriceMissing and ReasonOpenCostUnavailable are
	// reasons of the condition Priced.
	ReasonPriced              = "Priced"
	ReasonPriceInvalid        = "PriceInvalid"
	ReasonPriceMissing        = "PriceMissing"
	ReasonOpenCostUnavailable = "OpenCostUnavailable"
	// The constants from ReasonLiqoReady to ReasonLimitsNotEnforced are reasons of the condition
	// LiqoReady. ReasonLiqoHidden means that the agent cannot read Liqo's version and settings.
	ReasonLiqoReady  = "LiqoReady"
	ReasonLiqoHidden = "LiqoHidden"
	// ReasonLiqoMissing means that Liqo is not installed in this cluster.
	ReasonLiqoMissing = "LiqoMissing"
	// ReasonLiqoVersionUnsupported means that the agent does not work with this version of Liqo.
	// ReasonLiqoVersionUntested means that the agent may work with this version, but was not tested
	// with it.
	ReasonLiqoVersionUnsupported = "LiqoVersionUnsupported"
	ReasonLiqoVersionUntested    = "LiqoVersionUntested"
	// ReasonLiqoNotRunning means that a Deployment of Liqo has no available pod.
	ReasonLiqoNotRunning = "LiqoNotRunning"
	// ReasonLimitsNotEnforced means that Liqo lets other clusters use more than they reserved.
	ReasonLimitsNotEnforced = "LimitsNotEnforced"
	// ReasonBrokerCompatible, ReasonBrokerTooOld and ReasonBrokerTooNew are reasons of the
	// condition BrokerCompatible.
	ReasonBrokerCompatible = "BrokerCompatible"
	ReasonBrokerTooOld     = "BrokerTooOld"
	ReasonBrokerTooNew     = "BrokerTooNew"
	ReasonInsufficient     = "InsufficientCapacity"
	// ReasonPodsDoNotFit means that the amounts of a placement are free at the provider, but its pods
	// or pods promised to others would not be certain to find room on nodes. The broker does not count
	// this refusal as a broken promise.
	ReasonPodsDoNotFit  = "PodsDoNotFit"
	ReasonOutsideBounds = "OutsideBounds"
	ReasonGranted       = "Granted"
	// ReasonApplied means that the agent uses the current spec of the LendingPolicy.
	ReasonApplied = "Applied"
	ReasonLending = "Lending"
	ReasonHeld    = "Held"
	// ReasonHoldIncomplete means that not all placeholder pods fit, because other pods took the
	// room.
	ReasonHoldIncomplete = "HoldIncomplete"
	// ReasonReceiptRefused means that the agent did not accept the last receipt of the broker.
	ReasonReceiptRefused = "ReceiptRefused"
	// ReasonExceedsGrant means that the pods of a placement use, or have used, more than was
	// granted. The agent evicts the newest pods.
	ReasonExceedsGrant = "ExceedsGrant"
	// ReasonWithinGrant means that the pods of a placement used more than was granted and are
	// within the grant again.
	ReasonWithinGrant = "WithinGrant"

	ReasonCertificateValid    = "CertificateValid"
	ReasonCertificateExpiring = "CertificateExpiring"
	ReasonCertificateInvalid  = "CertificateInvalid"
	ReasonRenewalFailing      = "CertificateRenewalFailing"
	// ReasonDraining has two uses. A provider sets it when it withdraws its acknowledgement because
	// it stops lending. A consumer sets it while it evicts the pods from a virtual node.
	ReasonDraining = "Draining"
	ReasonHealthy  = "Healthy"
	// ReasonProviderUnreachable means that this cluster's Liqo cannot reach the provider's API
	// server.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonSliceDenied means that the provider now denies a ResourceSlice that it had granted.
	ReasonSliceDenied = "SliceDenied"
	// ReasonPodsRejected means that pods on the virtual node have no copy at the provider, or that
	// no node there can take the copy, so they do not run there.
	ReasonPodsRejected = "PodsRejected"
	// ReasonServiceRejected means that the provider does not accept the endpoints of a Service, for
	// example because it has another Service of that name.
	ReasonServiceRejected = "ServiceRejected"
	// ReasonUnreachable means that this cluster gives up a placement because it cannot reach the
	// provider's API server.
	ReasonUnreachable = "Unreachable"
	// ReasonDrainBlocked means that the API server refuses to evict pods, for example because of a
	// PodDisruptionBudget.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainOverdue means that the time for evictions is over. The agent deletes the remaining
	// pods.
	ReasonDrainOverdue = "DrainOverdue"
	// ReasonDrained means that no pods are left on the virtual node.
	ReasonDrained = "Drained"
	// ReasonDrainedPartly means that the agent deletes the virtual node although some of its pods
	// may still run.
	ReasonDrainedPartly = "DrainedPartly"

	// ReasonExpiring means that the duration of the reservation ends soon.
	ReasonExpiring = "Expiring"
	// ReasonExpired means that the duration of the reservation has ended.
	ReasonExpired = "Expired"
	// ReasonDeleted means that the ResourceRequest was deleted.
	ReasonDeleted = "Deleted"
	// ReasonPodTemplateMissing means that a ProvisioningRequest or CapacityBuffer names a PodTemplate
	// or workload that does not exist.
	ReasonPodTemplateMissing = "PodTemplateMissing"
	// ReasonNameTaken means that a ResourceRequest of another owner has the name that the agent
	// would use for a ProvisioningRequest or CapacityBuffer.
	ReasonNameTaken = "NameTaken"
)

// Reasons of the conditions of a BurstPolicy. Those from ReasonRequested on are also reasons of the
// condition Ready of a CapacityBuffer.
const (
	// ReasonWatching means that new pods that the policy selects are prepared for virtual nodes.
	ReasonWatching = "Watching"
	// ReasonNamespaceClosed means that the namespace lacks BurstNamespaceLabel.
	ReasonNamespaceClosed = "NamespaceClosed"
	// ReasonNothingWaits means that no pod is unschedulable that could run on a virtual node.
	ReasonNothingWaits = "NothingWaits"
	// ReasonRequested means that the requests have or will have room for all pods that wait.
	ReasonRequested = "Requested"
	// ReasonGathering means that pods have not been unschedulable for the time in spec.after.
	ReasonGathering = "Gathering"
	// ReasonPausing means that the last change is less than a minute old.
	ReasonPausing = "Pausing"
	// ReasonSettling means that a request for these pods is not answered yet, or waits in the queue.
	ReasonSettling = "Settling"
	// ReasonLimitReached means that spec.limit allows no more.
	ReasonLimitReached = "LimitReached"
	// ReasonNodeUnusable means that a request has room, but its node is cordoned or not Ready.
	ReasonNodeUnusable = "NodeUnusable"
	// ReasonNoCapacity means that a request has ended without serving the pods; it is repeated.
	ReasonNoCapacity = "NoCapacity"
)

// Reasons why a BurstPolicy skips pods, in its status and in events of the pods.
const (
	// ReasonDaemonSetPod means that a DaemonSet owns the pod.
	ReasonDaemonSetPod = "DaemonSetPod"
	// ReasonHostAccess means that the pod uses its node's network, processes, ports or files, or is
	// privileged.
	ReasonHostAccess = "HostAccess"
	// ReasonLocalVolume means that the pod has a volume that exists only in this cluster.
	ReasonLocalVolume = "LocalVolume"
	// ReasonRefusedByProviders means that providers refuse the pod by default, because of its
	// tolerations or its long termination grace period.
	ReasonRefusedByProviders = "RefusedByProviders"
	// ReasonPodAffinity means that the pod has required affinities to pods, or topology spread
	// constraints with DoNotSchedule, so that one more node may not help it.
	ReasonPodAffinity = "PodAffinity"
	// ReasonRuntimeClass means that the pod names a RuntimeClass.
	ReasonRuntimeClass = "RuntimeClass"
	// ReasonResourceClaim means that the pod has resource claims.
	ReasonResourceClaim = "ResourceClaim"
	// ReasonNoRequests means that a container requests no cpu or no memory.
	ReasonNoRequests = "NoRequests"
	// ReasonLimitsDiffer means that limits of cpu or memory differ from the requests.
	ReasonLimitsDiffer = "LimitsDiffer"
	// ReasonTooManyResources means that the pod requests more resources than a ResourceRequest can
	// name.
	ReasonTooManyResources = "TooManyResources"
	// ReasonNotPrepared means that the pod does not tolerate virtual nodes.
	ReasonNotPrepared = "NotPrepared"
	// ReasonNodeSelector means that the pod's node selector or affinity excludes virtual nodes.
	ReasonNodeSelector = "NodeSelector"
	// ReasonPlacesExcluded means that the pod and the policy's template exclude each other's places.
	ReasonPlacesExcluded = "PlacesExcluded"
	// ReasonExceedsLimit means that the pod alone requests more than the policy's limit.
	ReasonExceedsLimit = "ExceedsLimit"
)

// Finalizers, labels and a taint that the agent sets or reads.
const (
	// ReleaseFinalizer keeps a deleted ResourceRequest until its reservation is released and its
	// virtual node is gone.
	ReleaseFinalizer = "liqo.io/broker-release"
	// PeeringFinalizer keeps a deleted instruction until everything that the agent created for it
	// is gone.
	PeeringFinalizer = "liqo.io/broker-peering"

	// ManagedByLabel marks every object that the agent created. The agent deletes no other objects,
	// except pods that it evicts or drains.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByValue is the value of ManagedByLabel.
	ManagedByValue = "liqo-resource-broker"

	// ReservationLabel carries the reservation's name on instructions, slices and virtual
	// nodes.
	ReservationLabel = "broker.fluidos.eu/reservation"
	// RequestLabel and RequestNamespaceLabel on a virtual node name the ResourceRequest that the
	// node serves. The agent sets them; see RequestNodeLabels for their values. They name no UID: a
	// request that is deleted and created again gets the same labels for another reservation.
	RequestLabel          = "broker.fluidos.eu/request"
	RequestNamespaceLabel = "broker.fluidos.eu/request-namespace"
	// NamespaceLabelPrefix, followed by the name of a namespace, is the key of a label that the
	// agent sets on virtual nodes. It means that pods of that namespace may run on the node.
	NamespaceLabelPrefix = "namespace.broker.fluidos.eu/"
	// SharedLabel marks the virtual node of a reservation without a ResourceRequest and without a
	// list of namespaces. Pods of every offloaded namespace may run on it.
	SharedLabel = "broker.fluidos.eu/shared"
	// BurstLabel on a virtual node names the BurstPolicy in the namespace of its request for whose
	// pods the node is. The agent sets it.
	BurstLabel = "broker.fluidos.eu/burst"
	// BurstFullAnnotation on a ResourceRequest of a BurstPolicy or CapacityBuffer means that its
	// provider has refused to enlarge it.
	BurstFullAnnotation = "broker.fluidos.eu/burst-full"
	// BufferChangedAnnotation on a ResourceRequest of a CapacityBuffer says when the agent last
	// resized it, as an RFC 3339 time.
	BufferChangedAnnotation = "broker.fluidos.eu/buffer-changed"
	// BurstNamespaceLabel, with value "true" on a namespace, allows BurstPolicies to let its pods run
	// on virtual nodes.
	BurstNamespaceLabel = "liqo.io/broker-burst"
	// EndingTaint is the key of a taint with effect NoSchedule on virtual nodes whose placement has
	// ended. Its value is the reservation's name.
	EndingTaint = "broker.fluidos.eu/ending"
	// VacatingTaint is the key of a taint with effect NoSchedule on virtual nodes whose reservation is
	// about to be released as idle. Its value is the time at which the agent set the taint, in Unix
	// seconds. The agent removes the taint if the reservation stays.
	VacatingTaint = "broker.fluidos.eu/vacating"
	// PlaceholderLabel marks a placeholder pod. Its value is the name of the placement for which
	// the pod occupies capacity.
	PlaceholderLabel = "broker.fluidos.eu/placeholder"
	// DrainLabel is "true" on evictions by the agent, which its policy limits to offloaded namespaces.
	DrainLabel = "broker.fluidos.eu/drain"
	// OffloadLabel on a namespace names the namespace whose ResourceRequests may offload it, besides
	// its own. The value "true" allows those of every namespace.
	OffloadLabel = "liqo.io/broker-offload"
	// SameNameLabel, with value "true" on a namespace, allows ResourceRequests to offload the
	// namespace under its own name. Administrators should not let every tenant use this label: if a
	// provider refuses the name, no further namespaces of this cluster can be offloaded to that
	// provider until the request is deleted.
	SameNameLabel = "liqo.io/broker-same-name"
)
