package refusals

// asked is a valid request that the cluster in standing has room for.
const asked = `
apiVersion: liqo.io/v1alpha1
kind: ResourceRequest
metadata: {name: mine, namespace: team}
spec: {cpu: "4", memory: 1Gi}
`

// standing are valid objects that the invalid ones conflict with.
const standing = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: BrokerConfig
metadata: {name: default}
spec:
  maxPerReservation: {cpu: "32", memory: 64Gi, example.com/fpga: "0"}
  maxDuration: 24h
  deniedClusters: [mallory]
---
apiVersion: broker.fluidos.eu/v1alpha1
kind: Reservation
metadata: {name: held, namespace: default}
spec: {requesterID: user-team, requestedResources: {cpu: "2", memory: 1Gi}, duration: 2h}
---
# Applied after what it is to hold, as from a folder in the order of names.
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: milan, namespace: default}
spec: {clusterID: milan, resources: {capacity: {cpu: "64", memory: 256Gi}}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: requests, namespace: team}
spec:
  limits:
    - type: liqo.io/ResourceRequest
      max: {cpu: "8", nvidia.com/gpu: "1", liqo.io/priority: "100"}
      min: {cpu: 100m}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: requests, namespace: team}
spec: {hard: {resourcerequests.liqo.io/cpu: "10", resourcerequests.liqo.io/nvidia.com.gpu: "1"}}
---
# Alice may write in namespace default and team, and ask in the name of blue-team.
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: broker-tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent-tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: blue-team, namespace: default}
rules:
  - apiGroups: [broker.fluidos.eu]
    resources: [reservations]
    resourceNames: [blue-team]
    verbs: [impersonate-requester]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: blue-team, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: blue-team}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
`

// byWebhook are invalid manifests that a webhook refuses: one of each kind of object and each source of a bound. The
// packages of webhooks test all verdicts.
var byWebhook = map[string]wrong{
	"a reservation above the most of one resource": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 32001m, memory: 1Gi}}`,
		[]string{"spec.requestedResources[cpu]", "the most is 32, set by BrokerConfig.spec.maxPerReservation; ask for less, or in several reservations"},
	},
	"a channel with a type that does not exist": {
		brokerConfig + `{notifications: [{name: bus, events: [reservations.*], slack: {secretRef: {name: s}}}]}`,
		[]string{"spec", "notifications[bus].events: ", `"reservations.*" matches no event: write a type such as reservation.active`},
	},
	"a channel of files with events": {
		brokerConfig + `{notifications: [{name: archive, events: ["*"], files: {}}]}`,
		[]string{"spec", "notifications[archive].events: files contain the records of the journal: write events: [journal.record]"},
	},
	"a channel of files with gaps": {
		brokerConfig + `{notifications: [{name: archive, events: [journal.record], requesters: [rome], files: {}}]}`,
		[]string{"spec", "notifications[archive].requesters: files contain all records"},
	},
	"a chat that gets records": {
		brokerConfig + `{notifications: [{name: chat, events: [journal.record], slack: {secretRef: {name: s}}}]}`,
		[]string{"spec", "notifications[chat].events: journal.record is for programs"},
	},
	"a reservation of a resource with a maximum of zero": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, example.com/fpga: 1, memory: 1Gi}}`,
		[]string{"spec.requestedResources[example.com/fpga]", "the most is 0"},
	},
	"a reservation of more memory than can be counted": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 5Ei}}`,
		[]string{"spec.requestedResources", "is too large"},
	},
	"a reservation of four bytes for each pod": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}, podShapes: [{count: 1, resources: {cpu: 1, memory: "4"}}]}`,
		[]string{`spec.podShapes[0].resources[memory]: Invalid value: "4": must be at least 1Mi: without a unit it is a number of bytes, for example 256Mi`},
	},
	"a request for four bytes for each pod": {
		resourceRequest + `{cpu: 1, memory: 1Gi, podShapes: [{count: 1, resources: {cpu: 1, memory: 4000m}}]}`,
		[]string{"spec.podShapes[0].resources[memory]", "must be at least 1Mi"},
	},
	"a reservation whose pods name no memory": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1}, podShapes: [{count: 1, resources: {cpu: 1}}]}`,
		[]string{"spec", "memory must be above zero, for example 256Mi: a virtual node needs cpu and memory"},
	},
	"a request whose pods name no cpu": {
		resourceRequest + `{memory: 1Gi, podShapes: [{count: 1, resources: {memory: 1Gi}}]}`,
		[]string{"spec", "cpu must be above zero, for example 500m: a virtual node needs cpu and memory"},
	},
	"a second advertisement of a cluster": {
		clusterAdvertisement + `{clusterID: milan, resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.clusterID", "ClusterAdvertisement default/milan already exists for this cluster: change that one, or delete it first"},
	},
	"an advertisement with a second price of memory": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {currency: EUR, resourceCosts: {memory: "1"}}}`,
		[]string{"spec.cost.resourceCosts[memory]", "the price of a GiB-hour is spec.cost.memoryCost"},
	},
	"a request above the most of one": {
		resourceRequest + `{cpu: "9", memory: 1Gi}`,
		[]string{"spec.cpu", `LimitRange "requests" allows at most 8; ask for less, or have it raised`},
	},
	"a request that is too much with the others": {
		resourceRequest + `{cpu: "7", memory: 1Gi}`,
		[]string{"spec.cpu", `ResourceQuota "requests" allows resourcerequests.liqo.io/cpu=10`, "4 is asked for already; ask for less, delete a request, or have it raised"},
	},
	"a request of a cluster for itself": {
		resourceRequest + `{cpu: "1", memory: 1Gi, constraints: {includeClusters: [rome]}}`,
		[]string{`spec.constraints.includeClusters[0]: Invalid value: "rome": is the requester itself`},
	},
}

// byWebhookOfAlice are manifests that a webhook refuses to alice, but not to an administrator.
var byWebhookOfAlice = map[string]wrong{
	"a reservation in the name of a cluster": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}}`,
		[]string{"spec.requesterID", `user "alice" may not request in the name of "rome"`, "grant the verb impersonate-requester on reservations.broker.fluidos.eu"},
	},
	"a reservation in the name of another team": {
		reservation + `{requesterID: red-team, requestedResources: {cpu: 1, memory: 1Gi}}`,
		[]string{"spec.requesterID", `resourceName "red-team" in namespace "default"`},
	},
}

// edit changes an existing object with a merge patch.
type edit struct {
	path, patch string
	want        []string
}

// edits are invalid changes of existing objects.
var edits = map[string]edit{
	"another requester of a reservation": {
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/reservations/held", `{"spec":{"requesterID":"rome"}}`,
		[]string{"spec.requesterID", "of a Reservation only requestedResources, duration and release can be changed: delete it and create another"},
	},
	"more of a reservation than one may have": {
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/reservations/held", `{"spec":{"requestedResources":{"cpu":"33"}}}`,
		[]string{"spec.requestedResources[cpu]", "the most is 32, set by BrokerConfig.spec.maxPerReservation"},
	},
	"a target for a reservation that has none": {
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/reservations/held", `{"spec":{"targetClusterID":"paris"}}`,
		[]string{"spec", "only requestedResources, duration and release can be changed"},
	},
	"another way to heal a reservation": {
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/reservations/held", `{"spec":{"healing":"Wait"}}`,
		[]string{"spec", "only requestedResources, duration and release can be changed"},
	},
	"another cluster of an advertisement": {
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/clusteradvertisements/milan", `{"spec":{"clusterID":"turin"}}`,
		[]string{"spec.clusterID", "clusterID cannot be changed: delete this ClusterAdvertisement and create one for the other cluster"},
	},
	"more allocatable than there is": {
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/clusteradvertisements/milan", `{"spec":{"resources":{"allocatable":{"cpu":"65"}}}}`,
		[]string{"spec.resources.allocatable[cpu]", "lower it, or raise spec.resources.capacity"},
	},
	"more of a request than one may have": {
		"/apis/liqo.io/v1alpha1/namespaces/team/resourcerequests/mine", `{"spec":{"cpu":"9"}}`,
		[]string{"spec.cpu", `LimitRange "requests" allows at most 8`},
	},
	"two GPUs for a request that has none": {
		"/apis/liqo.io/v1alpha1/namespaces/team/resourcerequests/mine", `{"spec":{"resources":{"nvidia.com/gpu":"2"}}}`,
		[]string{"spec.resources[nvidia.com/gpu]", `LimitRange "requests" allows at most 1`},
	},
	"a priority for a request that has none": {
		"/apis/liqo.io/v1alpha1/namespaces/team/resourcerequests/mine", `{"spec":{"priority":7}}`,
		[]string{"spec", "only cpu, memory, resources, duration, quote and release can be changed"},
	},
	"a strategy for a request that has none": {
		"/apis/liqo.io/v1alpha1/namespaces/team/resourcerequests/mine", `{"spec":{"offloading":{"podOffloadingStrategy":"Remote"}}}`,
		[]string{"spec", "only cpu, memory, resources, duration, quote and release can be changed"},
	},
	"a cluster on both lists of the configuration": {
		"/apis/broker.fluidos.eu/v1alpha1/brokerconfigs/default", `{"spec":{"approvedClusters":[{"clusterID":"paris"},{"clusterID":"mallory"}]}}`,
		[]string{"spec.deniedClusters[0]", `"mallory"`, "is in spec.approvedClusters too: take it out of one of the lists"},
	},
	"a bound of sixty-four bytes in the configuration": {
		"/apis/broker.fluidos.eu/v1alpha1/brokerconfigs/default", `{"spec":{"maxPerReservation":{"memory":"64"}}}`,
		[]string{`spec.maxPerReservation[memory]: Invalid value: "64": must be 0 or at least 1Mi: without a unit it is a number of bytes, for example 64Gi`},
	},
	"an unknown field of the configuration": {
		"/apis/broker.fluidos.eu/v1alpha1/brokerconfigs/default", `{"spec":{"maxReservations":5}}`,
		[]string{`unknown field "spec.maxReservations"`},
	},
}
