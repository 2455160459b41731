package burst

import agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"

// Skip is why an unschedulable pod gets no borrowed capacity, as a reason in the status of a
// BurstPolicy and of an event of the pod.
type Skip string

// Values of Skip.
const (
	SkipDaemonSet     Skip = agentv1alpha1.ReasonDaemonSetPod
	SkipHostAccess    Skip = agentv1alpha1.ReasonHostAccess
	SkipRefused       Skip = agentv1alpha1.ReasonRefusedByProviders
	SkipPodAffinity   Skip = agentv1alpha1.ReasonPodAffinity
	SkipVolume        Skip = agentv1alpha1.ReasonLocalVolume
	SkipRuntimeClass  Skip = agentv1alpha1.ReasonRuntimeClass
	SkipResourceClaim Skip = agentv1alpha1.ReasonResourceClaim
	SkipNoRequests    Skip = agentv1alpha1.ReasonNoRequests
	SkipLimits        Skip = agentv1alpha1.ReasonLimitsDiffer
	SkipResources     Skip = agentv1alpha1.ReasonTooManyResources
	SkipNotPrepared   Skip = agentv1alpha1.ReasonNotPrepared
	SkipNodeSelector  Skip = agentv1alpha1.ReasonNodeSelector
	SkipPlaces        Skip = agentv1alpha1.ReasonPlacesExcluded
	SkipTooLarge      Skip = agentv1alpha1.ReasonExceedsLimit
)

// messages maps each reason to the text that Message returns.
var messages = map[Skip]string{
	SkipDaemonSet:     "pods of a DaemonSet run on the nodes of this cluster: exclude them with spec.selector",
	SkipHostAccess:    "the pod uses its node's network, processes, ports or files, is privileged, or otherwise breaks the Pod Security Standard baseline, so that providers refuse it: leave that out, or exclude the pod with spec.selector",
	SkipRefused:       "the pod tolerates taints of nodes that providers keep for others, or has a terminationGracePeriodSeconds above 600, so that providers refuse it: leave that out, or exclude the pod with spec.selector",
	SkipPodAffinity:   "the pod has required affinities to pods, or topology spread constraints with DoNotSchedule, so that a node with room may not help it: prefer instead of requiring, or exclude the pod with spec.selector",
	SkipVolume:        "the pod has a volume of this cluster, for example of a PersistentVolumeClaim, which is not available at a provider: use emptyDir, ConfigMaps or Secrets, or exclude the pod with spec.selector",
	SkipRuntimeClass:  "the pod names a RuntimeClass, which providers refuse by default: leave runtimeClassName out",
	SkipResourceClaim: "the pod has resourceClaims, which are not sent to a provider: request devices as extended resources",
	SkipNoRequests:    "a container requests no cpu or no memory, and providers admit no such pod: set resources.requests, or give the namespace a LimitRange with defaults",
	SkipLimits:        "limits of cpu or memory differ from the requests, and providers that enforce reservations admit no such pod: make them equal, or create the pod again so that the agent's webhook does",
	SkipResources:     "the pod requests more than seven resources besides cpu and memory, and a ResourceRequest names at most that many: request fewer, or exclude the pod with spec.selector",
	SkipNotPrepared:   "the pod does not tolerate virtual nodes, because it was created before the policy, before its namespace was labelled liqo.io/broker-burst=true, or while no agent answered: create it again",
	SkipNodeSelector:  "the pod's node selector or required affinity excludes the virtual nodes of this policy: select region, zone or cluster only, or exclude the pod with spec.selector",
	SkipPlaces:        "the pod's node selector or affinity excludes all regions, zones or clusters in spec.template.spec.constraints: change one of them",
	SkipTooLarge:      "the pod alone requests more than spec.limit allows: raise the limit",
}

// Message tells users what keeps the pods off virtual nodes and what they can do about it.
func (s Skip) Message() string { return messages[s] }
