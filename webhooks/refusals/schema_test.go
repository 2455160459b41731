package refusals

import (
	"fmt"
	"strings"
)

const (
	reservation = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: Reservation
metadata: {name: bad, namespace: default}
spec: `
	clusterAdvertisement = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: bad, namespace: default}
spec: `
	brokerConfig = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: BrokerConfig
metadata: {name: default}
spec: `
	resourceRequest = `
apiVersion: liqo.io/v1alpha1
kind: ResourceRequest
metadata: {name: bad, namespace: team}
spec: `
	advertisement = `
apiVersion: liqo.io/v1alpha1
kind: Advertisement
metadata: {name: bad, namespace: default}
spec: `
	reservationInstruction = `
apiVersion: liqo.io/v1alpha1
kind: ReservationInstruction
metadata: {name: bad, namespace: default}
spec: `
	providerInstruction = `
apiVersion: liqo.io/v1alpha1
kind: ProviderInstruction
metadata: {name: bad, namespace: default}
spec: `
	lendingPolicy = `
apiVersion: liqo.io/v1alpha1
kind: LendingPolicy
metadata: {name: default}
spec: `
)

// badAmount explains the pattern of amounts to those who write a wrong unit.
const badAmount = "an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"

// wrong is an invalid manifest, with parts of the expected message: the field and the remedy.
type wrong struct {
	manifest string
	want     []string
}

// bySchema are invalid manifests that the API server refuses without a webhook.
var bySchema = map[string]wrong{
	"a request with a name that its namespaces are to have elsewhere": {
		resourceRequest + `{cpu: 1, offloading: {namespaceMappingStrategy: SelectedName}}`,
		[]string{"spec.offloading.namespaceMappingStrategy", `"DefaultName", "EnforceSameName"`},
	},
	"a request whose pods are to stay here and to run there": {
		resourceRequest + `{cpu: 1, offloading: {podOffloadingStrategy: Local, podCompliance: Enforce}}`,
		[]string{"spec.offloading", "choose one"},
	},
	"a request that tolerates a taint of Kubernetes": {
		resourceRequest + `{cpu: 1, memory: 1Gi, constraints: {tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]}}`,
		[]string{"spec.constraints.tolerations[0].key", "never offered: use a key of your own"},
	},
	"a request that tolerates every taint": {
		resourceRequest + `{cpu: 1, memory: 1Gi, constraints: {tolerations: [{operator: Exists}]}}`,
		[]string{"spec.constraints.tolerations[0].key", "Required"},
	},
	"a request that tolerates every value and one": {
		resourceRequest + `{cpu: 1, memory: 1Gi, constraints: {tolerations: [{key: spot, operator: Exists, value: a}]}}`,
		[]string{"spec.constraints.tolerations[0]", "operator Exists has no value: leave it out, or use Equal"},
	},
	"a reservation of a negative amount": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2", memory: "-1Gi"}}`,
		[]string{"spec.requestedResources", "an amount cannot be negative: ask for more than zero, or leave the resource out"},
	},
	"a reservation of zero everything": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "0", memory: 0Gi}}`,
		[]string{"spec.requestedResources", "at least one amount must be above zero, for example cpu: 500m"},
	},
	"a reservation of nothing": {
		reservation + `{requesterID: rome, requestedResources: {}}`,
		[]string{"spec.requestedResources", "at least one amount must be above zero, for example cpu: 500m"},
	},
	"a reservation without amounts": {
		reservation + `{requesterID: rome}`,
		[]string{"spec.requestedResources: Required value"},
	},
	"a reservation of an amount that is no quantity": {
		reservation + `{requesterID: rome, requestedResources: {cpu: abc}}`,
		[]string{"spec.requestedResources.cpu", `"abc"`, badAmount},
	},
	"a reservation of an amount beyond reason": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "1e999"}}`,
		[]string{"spec.requestedResources.cpu", `"1e999"`},
	},
	"a reservation of an amount that takes minutes to compute with": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "1e-2147483647"}}`,
		[]string{"spec.requestedResources.cpu", `"1e-2147483647"`},
	},
	"a reservation of gigabytes": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2", memory: 4GB}}`,
		[]string{"spec.requestedResources", `"4GB"`, badAmount},
	},
	"a reservation of gigabytes for each pod": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2", memory: 4Gi}, podShapes: [{count: 1, resources: {memory: 4GB}}]}`,
		[]string{"spec.podShapes[0].resources.memory", `"4GB"`, badAmount},
	},
	"a request for gigabytes of storage": {
		resourceRequest + `{cpu: "2", memory: 4Gi, resources: {ephemeral-storage: 10GB}}`,
		[]string{"spec.resources", `"10GB"`, badAmount},
	},
	"a reservation of one and a half cores with a comma": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "1,5", memory: 4Gi}}`,
		[]string{"spec.requestedResources", `"1,5"`, badAmount},
	},
	"a reservation of four times a core": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 4x, memory: 4Gi}}`,
		[]string{"spec.requestedResources", `"4x"`, badAmount},
	},
	"a request for an amount with a blank": {
		resourceRequest + `{cpu: "2", memory: 4Gi, resources: {ephemeral-storage: 10 Gi}}`,
		[]string{"spec.resources", `"10 Gi"`, badAmount},
	},
	"a configuration that bounds with an underscore": {
		brokerConfig + `{maxPerReservation: {memory: 64_000Mi}}`,
		[]string{"spec.maxPerReservation", `"64_000Mi"`, badAmount},
	},
	"a configuration that bounds in gigabytes": {
		brokerConfig + `{maxPerReservation: {memory: 64GB}}`,
		[]string{"spec.maxPerReservation", `"64GB"`, badAmount},
	},
	"a reservation of memory in a unit of lower case": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2", memory: 4gi}}`,
		[]string{"spec.requestedResources", `"4gi"`, badAmount},
	},
	"a configuration that bounds in words": {
		brokerConfig + `{maxPerReservation: {cpu: ten cores}}`,
		[]string{"spec.maxPerReservation", `"ten cores"`, badAmount},
	},
	"a configuration that waits for networks for a day by its name": {
		brokerConfig + `{timeouts: {network: 1 day}}`,
		[]string{`spec.timeouts.network: Invalid value: "1 day": network must be at least 30s and at most 1h, for example 10m`},
	},
	"a configuration that leaves nodes that are NotReady for days": {
		brokerConfig + `{timeouts: {notReady: 1d}}`,
		[]string{`spec.timeouts.notReady: Invalid value: "1d": notReady must be at least 30s and at most 24h, for example 5m`},
	},
	"a reservation of a number of cores in words": {
		reservation + `{requesterID: rome, requestedResources: {cpu: two, memory: 4Gi}}`,
		[]string{"spec.requestedResources", `"two"`, badAmount},
	},
	"a request for a number of devices in words": {
		resourceRequest + `{cpu: "2", memory: 4Gi, resources: {nvidia.com/gpu: one}}`,
		[]string{"spec.resources", `"one"`, badAmount},
	},
	"a configuration that approves what is no cluster ID": {
		brokerConfig + `{approvedClusters: [{clusterID: "Paris"}]}`,
		[]string{"spec.approvedClusters[0].clusterID", "a cluster ID is a DNS label"},
	},
	"a reservation of eleven resources": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1, a/9: 1, a/10: 1}}`,
		[]string{"spec.requestedResources", "must have at most 10 items"},
	},
	"a reservation for a malformed requester": {
		reservation + `{requesterID: "user team!", requestedResources: {cpu: "2"}}`,
		[]string{"spec.requesterID", "requesterID must be a cluster ID, or another name made of letters, digits, '-', '_' and '.'"},
	},
	"a reservation for a requester that ends in a dash": {
		reservation + `{requesterID: rome-, requestedResources: {cpu: "2"}}`,
		[]string{"spec.requesterID", "requesterID must be a cluster ID"},
	},
	"a reservation with an empty requester": {
		reservation + `{requesterID: "", requestedResources: {cpu: "2"}}`,
		[]string{"spec.requesterID", "should be at least 1 chars long"},
	},
	"a reservation without a requester": {
		reservation + `{requestedResources: {cpu: "2"}}`,
		[]string{"spec.requesterID: Required value"},
	},
	"a reservation for ten seconds": {
		reservation + `{requesterID: rome, duration: 10s, requestedResources: {cpu: "2"}}`,
		[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
	},
	"a reservation for a negative time": {
		reservation + `{requesterID: rome, duration: -1h, requestedResources: {cpu: "2"}}`,
		[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
	},
	"a reservation for a time that is no duration": {
		reservation + `{requesterID: rome, duration: a while, requestedResources: {cpu: "2"}}`,
		[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
	},
	"a reservation of negative priority": {
		reservation + `{requesterID: rome, priority: -1, requestedResources: {cpu: "2"}}`,
		[]string{"spec.priority", "should be greater than or equal to 0"},
	},
	"a reservation with a field that does not exist": {
		reservation + `{requesterID: rome, resources: {cpu: "2"}, requestedResources: {cpu: "2"}}`,
		[]string{`unknown field "spec.resources"`},
	},
	"an advertisement with the former price of a core": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuPerHour: "0.1"}}`,
		[]string{"spec.cost.cpuPerHour", "set cpuCost to the price of one core for one hour"},
	},
	"an advertisement with the former price of memory": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {memoryPerHour: "0.1"}}`,
		[]string{"spec.cost.memoryPerHour", "set memoryCost to the price of one GiB for one hour"},
	},
	"an advertisement with a negative price": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuCost: "-0.1"}}`,
		[]string{"spec.cost.cpuCost", "cpuCost must be a decimal number"},
	},
	"an advertisement with a negative price of a GPU": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {resourceCosts: {nvidia.com/gpu: "-1"}}}`,
		[]string{"spec.cost.resourceCosts[nvidia.com/gpu]", "a price must be a decimal number"},
	},
	"an advertisement in a currency that is no code": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuCost: "0.1", currency: eur}}`,
		[]string{"spec.cost.currency", "currency must be an ISO 4217 code, for example EUR"},
	},
	"an advertisement of a cluster in upper case": {
		clusterAdvertisement + `{clusterID: Paris, resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.clusterID", "clusterID must be a DNS label: lower-case letters, digits and '-' only"},
	},
	"an advertisement of a cluster whose ID has 41 characters": {
		clusterAdvertisement + `{clusterID: ` + strings.Repeat("a", 41) + `, resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.clusterID", "may not be more than 40 bytes"},
	},
	"an advertisement without resources": {
		clusterAdvertisement + `{clusterID: paris}`,
		[]string{"spec.resources: Required value"},
	},
	"an advertisement with a password in its address": {
		clusterAdvertisement + `{clusterID: paris, endpointURL: "https://admin:secret@paris:6443", resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.endpointURL", "endpointURL must be an https:// address without user name, password"},
	},
	"an advertisement with credentials beside its address": {
		clusterAdvertisement + `{clusterID: paris, token: secret, resources: {capacity: {cpu: 1}}}`,
		[]string{`unknown field "spec.token"`},
	},
	"a second configuration": {
		strings.Replace(brokerConfig, "name: default", "name: other", 1) + `{scoringPreset: balanced}`,
		[]string{"there is one BrokerConfig: name it default"},
	},
	"a drain with a notice that is over": {
		brokerConfig + `{drains: [{clusterID: paris, notice: -1m}]}`,
		[]string{"spec.drains[0].notice", "notice must be at least 0s and at most 720h"},
	},
	"a cordon with a notice": {
		brokerConfig + `{drains: [{clusterID: paris, cordonOnly: true, notice: 1m}]}`,
		[]string{"spec.drains[0].notice", "with cordonOnly reservations stay: leave notice out"},
	},
	"a drain of something that is no cluster": {
		brokerConfig + `{drains: [{clusterID: "Paris!"}]}`,
		[]string{"spec.drains[0].clusterID", "a cluster ID is a DNS label"},
	},
	"a cluster that is drained twice": {
		brokerConfig + `{drains: [{clusterID: paris}, {clusterID: paris, notice: 1h}]}`,
		[]string{"spec.drains[1]", "Duplicate value"},
	},
	"a channel without a target": {
		brokerConfig + `{notifications: [{name: bus, events: ["*"]}]}`,
		[]string{"spec.notifications[0]", "set exactly one of cloudEvents, slack, email and files"},
	},
	"a channel with two targets": {
		brokerConfig + `{notifications: [{name: bus, events: ["*"], slack: {secretRef: {name: s}}, cloudEvents: {url: "https://a.example", secretRef: {name: s}}}]}`,
		[]string{"spec.notifications[0]", "set exactly one of cloudEvents, slack, email and files"},
	},
	"a channel without events": {
		brokerConfig + `{notifications: [{name: bus, events: [], slack: {secretRef: {name: s}}}]}`,
		[]string{"spec.notifications[0].events", "should have at least 1 items"},
	},
	"a channel that groups CloudEvents": {
		brokerConfig + `{notifications: [{name: bus, events: ["*"], groupWait: 1m, cloudEvents: {url: "https://a.example", secretRef: {name: s}}}]}`,
		[]string{"spec.notifications[0].groupWait", "only messages for people wait for more events"},
	},
	"a channel without TLS": {
		brokerConfig + `{notifications: [{name: bus, events: ["*"], cloudEvents: {url: "http://a.example", secretRef: {name: s}}}]}`,
		[]string{"spec.notifications[0].cloudEvents.url", "url must begin with https://"},
	},
	"credentials for a mail server without TLS": {
		brokerConfig + `{notifications: [{name: m, events: ["*"], email: {from: a@example.com, to: [b@example.com], server: "m.example:25", tls: None, secretRef: {name: s}}}]}`,
		[]string{"spec.notifications[0].email.secretRef", "credentials are not sent without TLS"},
	},
	"a mail server without port": {
		brokerConfig + `{notifications: [{name: m, events: ["*"], email: {from: a@example.com, to: [b@example.com], server: m.example}}]}`,
		[]string{"spec.notifications[0].email.server", "server must be host:port"},
	},
	"a configuration with weights that sum to 90": {
		brokerConfig + `{scoringWeights: {resourceAvailability: 60, cost: 30}}`,
		[]string{"spec.scoringWeights", "the weights must sum to 100"},
	},
	"a configuration with preset and weights": {
		brokerConfig + `{scoringPreset: balanced, scoringWeights: {resourceAvailability: 70, cost: 30}}`,
		[]string{"spec", "set scoringPreset or scoringWeights, not both"},
	},
	"a configuration with a preset that does not exist": {
		brokerConfig + `{scoringPreset: cheapest}`,
		[]string{"spec.scoringPreset", `supported values: "availability", "balanced", "multi-criteria"`},
	},
	"a configuration that calls a cluster stale after a second": {
		brokerConfig + `{staleThreshold: 1s}`,
		[]string{"spec.staleThreshold", "staleThreshold must be at least 1m"},
	},
	"a configuration that gives nodes a second to become Ready": {
		brokerConfig + `{timeouts: {readiness: 1s}}`,
		[]string{"spec.timeouts.readiness", "readiness must be at least 30s"},
	},
	"a configuration that gives networks a second to connect": {
		brokerConfig + `{timeouts: {network: 1s}}`,
		[]string{"spec.timeouts.network", "network must be at least 30s"},
	},
	"a configuration that leaves nodes that are NotReady for a second": {
		brokerConfig + `{timeouts: {notReady: 1s}}`,
		[]string{"spec.timeouts.notReady", "notReady must be at least 30s"},
	},
	"a configuration that heals before it calls a cluster silent": {
		brokerConfig + `{timeouts: {healing: 1m}}`,
		[]string{"spec.timeouts", "healing must be at least silence (90s by default)"},
	},
	"a second lending policy": {
		strings.Replace(lendingPolicy, "name: default", "name: other", 1) + `{paused: true}`,
		[]string{"there is one LendingPolicy: name it default"},
	},
	"a lending policy that allows and denies a cluster": {
		lendingPolicy + `{consumers: {allow: [rome, milan], deny: [rome]}}`,
		[]string{"spec.consumers", "a cluster is in both allow and deny: leave it in one of them"},
	},
	"a lending policy that denies a cluster twice": {
		lendingPolicy + `{consumers: {deny: [rome, rome]}}`,
		[]string{"spec.consumers.deny[1]", "Duplicate value"},
	},
	"a lending policy with a pattern": {
		lendingPolicy + `{consumers: {allow: ["ro*"]}}`,
		[]string{"spec.consumers.allow[0]", "a cluster ID must be a DNS label"},
	},
	"a lending policy with too many clusters": {
		lendingPolicy + `{consumers: {deny: [` + manyClusters(257) + `]}}`,
		[]string{"spec.consumers.deny", "must have at most 256 items"},
	},
	"a recall of nothing": {
		lendingPolicy + `{recalls: [{notice: 1m}]}`,
		[]string{"spec.recalls[0]", "name either consumer or reservation"},
	},
	"a recall of a consumer and a reservation": {
		lendingPolicy + `{recalls: [{consumer: rome, reservation: res-1}]}`,
		[]string{"spec.recalls[0]", "name either consumer or reservation"},
	},
	"a recall of a pattern": {
		lendingPolicy + `{recalls: [{consumer: "ro*"}]}`,
		[]string{"spec.recalls[0].consumer", "consumer must be the ID of a cluster, or * for all"},
	},
	"a recall with a notice that is over": {
		lendingPolicy + `{recalls: [{consumer: rome, notice: -1m}]}`,
		[]string{"spec.recalls[0].notice", "notice must be at least 0s and at most 720h"},
	},
	"a lending policy that pauses by a word": {
		lendingPolicy + `{paused: "yes"}`,
		[]string{"spec.paused", "must be of type boolean"},
	},
	"a request for nothing": {
		resourceRequest + `{priority: 10}`,
		[]string{"spec", "set both cpu and memory, for example cpu: 500m and memory: 256Mi, or podShapes: a virtual node needs both"},
	},
	"a request for zero cores": {
		resourceRequest + `{cpu: "0", memory: 1Gi}`,
		[]string{"spec.cpu", "cpu must be above zero, for example 500m"},
	},
	"a request for cpu alone": {
		resourceRequest + `{cpu: "2"}`,
		[]string{"spec", "set both cpu and memory"},
	},
	"a request for memory alone": {
		resourceRequest + `{memory: 4Gi}`,
		[]string{"spec", "set both cpu and memory"},
	},
	"a request for a GPU alone": {
		resourceRequest + `{resources: {nvidia.com/gpu: 1}}`,
		[]string{"spec", "set both cpu and memory"},
	},
	"a reservation of cpu alone": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2"}}`,
		[]string{"spec.requestedResources", "set both cpu and memory"},
	},
	"a reservation of a GPU alone": {
		reservation + `{requesterID: rome, requestedResources: {nvidia.com/gpu: 1}}`,
		[]string{"spec.requestedResources", "set both cpu and memory"},
	},
	"a reservation of no memory beside a GPU": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 0, nvidia.com/gpu: 1}}`,
		[]string{"spec.requestedResources", "cpu and memory must be above zero"},
	},
	"a reservation of nothing times ten": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: "0e1"}}`,
		[]string{"spec.requestedResources", "cpu and memory must be above zero"},
	},
	"a request for negative memory": {
		resourceRequest + `{memory: "-1Gi"}`,
		[]string{"spec.memory", "memory must be at least 1Mi"},
	},
	"a request for memory in gigabytes": {
		resourceRequest + `{cpu: "1", memory: 4GB}`,
		[]string{`spec.memory: Invalid value: "4GB": memory must be at least 1Mi, written with a unit such as Mi or Gi (not MB or GB), for example 256Mi`},
	},
	"a request for memory in a unit of lower case": {
		resourceRequest + `{cpu: "1", memory: 4gi}`,
		[]string{`spec.memory: Invalid value: "4gi": memory must be at least 1Mi`},
	},
	"a request for four bytes": {
		resourceRequest + `{cpu: "1", memory: "4"}`,
		[]string{`spec.memory: Invalid value: "4": memory must be at least 1Mi`},
	},
	"a request for four bytes in milli": {
		resourceRequest + `{cpu: "1", memory: 4000m}`,
		[]string{`spec.memory: Invalid value: "4000m": memory must be at least 1Mi`},
	},
	"a request for a number of cores in words": {
		resourceRequest + `{cpu: two, memory: 1Gi}`,
		[]string{`spec.cpu: Invalid value: "two": cpu must be a number of cores, for example 2, 0.5 or 500m`},
	},
	"a request for two days": {
		resourceRequest + `{cpu: "1", duration: 2d}`,
		[]string{`spec.duration: Invalid value: "2d": duration must be at least 1m and at most 87600h, for example 2h30m, or left out`},
	},
	"a request for hours by their name": {
		resourceRequest + `{cpu: "1", duration: 2 hours}`,
		[]string{`spec.duration: Invalid value: "2 hours": duration must be`},
	},
	"a request for an empty duration": {
		resourceRequest + `{cpu: "1", duration: ""}`,
		[]string{`spec.duration: Invalid value: "": duration must be`},
	},
	"a request that is queued for a time but not queued": {
		resourceRequest + `{cpu: "1", queueTimeout: 1h}`,
		[]string{"spec.queueTimeout", "queueTimeout has no effect without queuePolicy: Queue: set that too, or leave queueTimeout out"},
	},
	"a request in a region with a space": {
		resourceRequest + `{cpu: "1", constraints: {regions: [EU South]}}`,
		[]string{`spec.constraints.regions[0]: Invalid value: "EU South": a region is made of letters, digits, '-', '_' and '.', for example eu-south`},
	},
	"a request at a price in a currency by its name": {
		resourceRequest + `{cpu: "1", constraints: {maxPrice: {amount: "1", currency: EURO}}}`,
		[]string{`spec.constraints.maxPrice.currency: Invalid value: "EURO": currency must be an ISO 4217 code, for example EUR`},
	},
	"a request for more than an availability": {
		resourceRequest + `{cpu: "1", constraints: {requiredClaims: {availability: ">99"}}}`,
		[]string{"spec.constraints.requiredClaims", "a claim is required with a value, with >= or <= and a decimal number, for example >=99.9"},
	},
	"a request for a cluster by the name of its city": {
		resourceRequest + `{cpu: "1", constraints: {includeClusters: [Rome]}}`,
		[]string{`spec.constraints.includeClusters[0]: Invalid value: "Rome": a cluster ID is a DNS label`},
	},
	"a request that offloads a namespace of Kubernetes": {
		resourceRequest + `{cpu: "1", namespaces: [kube-system]}`,
		[]string{`spec.namespaces[0]: Invalid value: "kube-system": a system namespace cannot be offloaded: leave it out`},
	},
	"a request with data in gigabytes": {
		resourceRequest + `{cpu: "1", data: {volume: 500GB}}`,
		[]string{`spec.data.volume: Invalid value: "500GB": volume must be a number of bytes with a unit, for example 500Gi (not GB)`},
	},
	"a reservation of four bytes": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "1", memory: "4"}}`,
		[]string{"spec.requestedResources", "memory must be at least 1Mi: without a unit it is a number of bytes, for example 4Gi"},
	},
	"a reservation for two days": {
		reservation + `{requesterID: rome, duration: 2d, requestedResources: {cpu: "2"}}`,
		[]string{`spec.duration: Invalid value: "2d": duration must be at least 1m`},
	},
	"a reservation that is queued for a time but not queued": {
		reservation + `{requesterID: rome, queueTimeout: 1h, requestedResources: {cpu: "2"}}`,
		[]string{"spec.queueTimeout", "queueTimeout has no effect without queuePolicy: Queue"},
	},
	"a configuration that heals after days": {
		brokerConfig + `{timeouts: {healing: 1d}}`,
		[]string{`spec.timeouts.healing: Invalid value: "1d": healing must be at least 15s and at most 24h, for example 10m`},
	},
	"a request for an amount beyond reason": {
		resourceRequest + `{cpu: "1e999"}`,
		[]string{"spec.cpu", `"1e999"`},
	},
	"a request that names cpu twice": {
		resourceRequest + `{resources: {cpu: "1"}}`,
		[]string{"spec.resources", "cpu and memory have fields of their own: set spec.cpu and spec.memory"},
	},
	"a request that names nine resources besides cpu and memory": {
		resourceRequest + `{resources: {a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1, a/9: 1}}`,
		[]string{"spec.resources", "at most eight resources can be named besides cpu and memory"},
	},
	"a request that is idle for seconds": {
		resourceRequest + `{cpu: "1", memory: 1Gi, idle: {after: 30s, action: Notify}}`,
		[]string{"spec.idle.after", "after must be at least 1m and at most 87600h, for example 2h30m"},
	},
	"a request that is to be deleted when idle": {
		resourceRequest + `{cpu: "1", memory: 1Gi, idle: {after: 1h, action: Delete}}`,
		[]string{"spec.idle.action", `"Notify", "Release"`},
	},
	"a request that is idle for no time": {
		resourceRequest + `{cpu: "1", memory: 1Gi, idle: {action: Notify}}`,
		[]string{"spec.idle.after: Required value"},
	},
	"a reservation that is idle for days": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2", memory: 1Gi}, idle: {after: 2d, action: Notify}}`,
		[]string{"spec.idle.after", "after must be at least 1m and at most 87600h, for example 2h30m"},
	},
	"a configuration that bounds nothing": {
		brokerConfig + `{idle: {after: 24h}}`,
		[]string{"spec.idle.action: Required value"},
	},
	"a request for ten seconds": {
		resourceRequest + `{cpu: "1", duration: 10s}`,
		[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
	},
	"a reservation of no cpu beside memory": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "0", memory: 1Gi}}`,
		[]string{"spec.requestedResources", "cpu and memory must be above zero, for example cpu: 500m and memory: 256Mi"},
	},
	"a reservation of no cpu beside no GPU": {
		reservation + `{requesterID: rome, requestedResources: {cpu: 0, memory: 1Gi, nvidia.com/gpu: 0}}`,
		[]string{"spec.requestedResources", "cpu and memory must be above zero"},
	},
	"a reservation for longer than anything is held": {
		reservation + `{requesterID: rome, duration: 87601h, requestedResources: {cpu: "2"}}`,
		[]string{"spec.duration", "duration must be at least 1m and at most 87600h, for example 2h30m, or left out"},
	},
	"a reservation for longer than can be counted": {
		reservation + `{requesterID: rome, duration: 9999999999h, requestedResources: {cpu: "2"}}`,
		[]string{"spec.duration", "at most 87600h"},
	},
	"a reservation for a number of seconds": {
		reservation + `{requesterID: rome, duration: 3600, requestedResources: {cpu: "2"}}`,
		[]string{"spec.duration", "must be of type string"},
	},
	"a reservation that names its requester twice": {
		reservation + `{requesterID: rome, requesterID: paris, requestedResources: {cpu: "2"}}`,
		[]string{`key "requesterID" already set in map`},
	},
	"a reservation that names cpu twice": {
		reservation + `{requesterID: rome, requestedResources: {cpu: "2", cpu: "3"}}`,
		[]string{`key "cpu" already set in map`},
	},
	"a reservation with an unknown field beside its spec": {
		strings.Replace(reservation, "spec: ", "lease: 1h\nspec: ", 1) + `{requesterID: rome, requestedResources: {cpu: "2"}}`,
		[]string{`unknown field "lease"`},
	},
	"a reservation of a priority beyond the highest": {
		reservation + `{requesterID: rome, priority: 1000001, requestedResources: {cpu: "2"}}`,
		[]string{"spec.priority", "should be less than or equal to 1000000"},
	},
	"a reservation of a priority with a fraction": {
		reservation + `{requesterID: rome, priority: 1.5, requestedResources: {cpu: "2"}}`,
		[]string{"spec.priority", "must be of type integer"},
	},
	"a reservation whose target is longer than any cluster's name": {
		reservation + `{requesterID: rome, targetClusterID: ` + strings.Repeat("a", 41) + `, requestedResources: {cpu: "2"}}`,
		[]string{"spec.targetClusterID", "may not be more than 40 bytes"},
	},
	"a reservation for a tenant with a name that is too long": {
		reservation + `{requesterID: rome, tenant: ` + strings.Repeat("a", 64) + `, requestedResources: {cpu: "2"}}`,
		[]string{"spec.tenant", "may not be more than 63 bytes"},
	},
	"a reservation for a tenant with an escape code": {
		reservation + `{requesterID: rome, tenant: "\x1b[2Jx", requestedResources: {cpu: "2"}}`,
		[]string{"spec.tenant", "tenant must not contain control characters"},
	},
	"an advertisement of a cluster whose name has an escape code": {
		clusterAdvertisement + `{clusterID: paris, clusterName: "\x9b2Jx", resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.clusterName", "clusterName must not contain control characters"},
	},
	"an advertisement of a region with a line feed": {
		clusterAdvertisement + `{clusterID: paris, topology: {region: "eu\nsouth"}, resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.topology.region", "region must not contain control characters"},
	},
	"an advertisement of an address with a query": {
		clusterAdvertisement + `{clusterID: paris, endpointURL: "https://paris:6443/?a=b", resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.endpointURL", "without user name, password, query or fragment"},
	},
	"an advertisement of an address with a port that is too large": {
		clusterAdvertisement + `{clusterID: paris, endpointURL: "https://paris:65536", resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.endpointURL", "a port up to 65535"},
	},
	"an advertisement of a capacity that is no quantity": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: many}}}`,
		[]string{"spec.resources.capacity.cpu", `"many"`},
	},
	"an advertisement of a capacity that takes minutes to compute with": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {memory: "1e2147483647"}}}`,
		[]string{"spec.resources.capacity.memory", `"1e2147483647"`},
	},
	"an advertisement with a shape of no nodes": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, nodeShapes: [{count: 0, free: {cpu: 1}}]}`,
		[]string{"spec.nodeShapes[0].count", "should be greater than or equal to 1"},
	},
	"an advertisement whose address is not encrypted": {
		clusterAdvertisement + `{clusterID: paris, endpointURL: "http://paris:6443", resources: {capacity: {cpu: 1}}}`,
		[]string{"spec.endpointURL", "endpointURL must be an https:// address"},
	},
	"a configuration that denies a cluster twice": {
		brokerConfig + `{deniedClusters: [paris, paris]}`,
		[]string{"spec.deniedClusters[1]", "Duplicate value"},
	},
	"a configuration that approves a cluster twice": {
		brokerConfig + `{approvedClusters: [{clusterID: paris}, {clusterID: paris}]}`,
		[]string{"spec.approvedClusters[1]", "Duplicate value"},
	},
	"a configuration that denies what is no cluster ID": {
		brokerConfig + `{deniedClusters: ["*.example.com"]}`,
		[]string{"spec.deniedClusters[0]", "a cluster ID is a DNS label: lower-case letters, digits and '-' only"},
	},
	"a configuration that approves a key by half its digest": {
		brokerConfig + `{approvedClusters: [{clusterID: paris, keyFingerprint: "sha256:abcd"}]}`,
		[]string{"spec.approvedClusters[0].keyFingerprint", "a fingerprint is sha256: and 64 hexadecimal digits"},
	},
	"a configuration that bounds with less than nothing": {
		brokerConfig + `{maxPerReservation: {cpu: "-1"}}`,
		[]string{"spec.maxPerReservation", "a bound cannot be negative"},
	},
	"a configuration that holds nothing for a moment": {
		brokerConfig + `{maxDuration: 30s}`,
		[]string{"spec.maxDuration", "maxDuration must be at least 1m"},
	},
	"a configuration with a default TTL beyond the maximum": {
		brokerConfig + `{defaultTTL: 200000h}`,
		[]string{"spec.defaultTTL", "at most 87600h"},
	},
	"a configuration with a rate for its base": {
		brokerConfig + `{exchangeRates: {date: "2026-11-20", base: EUR, rates: {EUR: "1", USD: "1.1"}}}`,
		[]string{"spec.exchangeRates.rates", "the base has the rate 1: leave it out of rates"},
	},
	"a configuration with a rate of zero": {
		brokerConfig + `{exchangeRates: {date: "2026-11-20", base: EUR, rates: {USD: "0.00"}}}`,
		[]string{"spec.exchangeRates.rates", "a rate must be above zero"},
	},
	"a configuration with a currency by its name": {
		brokerConfig + `{exchangeRates: {date: "2026-11-20", base: EUR, rates: {dollar: "1.1"}}}`,
		[]string{"spec.exchangeRates.rates", "a currency must be an ISO 4217 code, for example USD"},
	},
	"a configuration with a list price in no currency": {
		brokerConfig + `{accounts: {listPrice: {cpuCost: "0.05"}}}`,
		[]string{"spec.accounts.listPrice", "listPrice needs a currency, for example EUR"},
	},
	"a configuration with rates of no day": {
		brokerConfig + `{exchangeRates: {date: today, base: EUR, rates: {USD: "1.1"}}}`,
		[]string{"spec.exchangeRates.date", "date must be a day, for example 2026-11-20"},
	},
	"a configuration that sells nothing twice over": {
		brokerConfig + `{overSubscriptionCeilings: {cpu: "0.5"}}`,
		[]string{"spec.overSubscriptionCeilings", "a ratio must be a decimal number from 1 to 10 with at most two places"},
	},
	"a configuration that is too exact": {
		brokerConfig + `{overSubscriptionCeilings: {memory: "1.125"}}`,
		[]string{"spec.overSubscriptionCeilings", "a ratio must be"},
	},
	"a configuration that divides devices": {
		brokerConfig + `{overSubscriptionCeilings: {nvidia.com/gpu: "2"}}`,
		[]string{"spec.overSubscriptionCeilings", "only cpu, memory, ephemeral-storage and pods can be over-subscribed"},
	},
	"a cluster that offers devices twice": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, overSubscription: {nvidia.com/gpu: "2"}}`,
		[]string{"spec.overSubscription", "only cpu, memory, ephemeral-storage and pods can be over-subscribed"},
	},
	"a cluster that offers eleven times what it has": {
		clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, overSubscription: {cpu: "11"}}`,
		[]string{"spec.overSubscription", "a ratio must be"},
	},
	"a configuration that keeps everything back": {
		brokerConfig + `{headroom: 100}`,
		[]string{"spec.headroom", "less than or equal to 90"},
	},
	"a configuration that shows what does not exist": {
		brokerConfig + `{visibility: {candidates: Some}}`,
		[]string{"spec.visibility.candidates", `supported values: "Full", "Anonymous", "Counts"`},
	},
	"a configuration with a rate limit of zero": {
		brokerConfig + `{rateLimits: {requestsPerSecond: 0}}`,
		[]string{"spec.rateLimits.requestsPerSecond", "greater than or equal to 1"},
	},
	"a configuration of an admission that does not exist": {
		brokerConfig + `{admission: Closed}`,
		[]string{"spec.admission", `supported values: "Open", "Approved"`},
	},
	"a request for no cpu beside a GPU": {
		resourceRequest + `{cpu: "0", memory: 1Gi, resources: {nvidia.com/gpu: 1}}`,
		[]string{"spec.cpu", "cpu must be above zero, for example 500m"},
	},
	"a request for negative cpu beside a GPU": {
		resourceRequest + `{cpu: "-1", resources: {nvidia.com/gpu: 1}}`,
		[]string{"spec.cpu", "cpu must be above zero"},
	},
	"a request for fewer than no GPUs": {
		resourceRequest + `{cpu: "1", resources: {nvidia.com/gpu: -1}}`,
		[]string{"spec.resources", "an amount cannot be negative"},
	},
	"a request for longer than anything is held": {
		resourceRequest + `{cpu: "1", duration: 87601h}`,
		[]string{"spec.duration", "at most 87600h"},
	},
	"a request that names a namespace twice": {
		resourceRequest + `{cpu: "1", namespaces: [team, team]}`,
		[]string{"spec.namespaces[1]", "Duplicate value"},
	},
	"a request for what is no namespace": {
		resourceRequest + `{cpu: "1", namespaces: ["Team A"]}`,
		[]string{"spec.namespaces[0]", "a namespace is a DNS label"},
	},
	"a request in the words of a pod": {
		resourceRequest + `{requests: {cpu: "1"}}`,
		[]string{`unknown field "spec.requests"`},
	},
	"a request that names memory twice": {
		resourceRequest + `{memory: 1Gi, memory: 2Gi}`,
		[]string{`key "memory" already set in map`},
	},
	"what a member offers without resources": {
		advertisement + `{clusterID: rome}`,
		[]string{"spec.resources: Required value"},
	},
	"what a member offers at the former price": {
		advertisement + `{clusterID: rome, resources: {capacity: {cpu: 1}}, cost: {cpuPerHour: "0.1"}}`,
		[]string{"spec.cost.cpuPerHour", "set cpuCost to the price of one core for one hour"},
	},
	"an instruction without a provider": {
		reservationInstruction + `{reservationName: res-k3v9x2m7qa, placement: 1, resources: {cpu: 1}}`,
		[]string{"spec.targetClusterID: Required value"},
	},
	"an instruction for a placement that is none": {
		reservationInstruction + `{reservationName: res-k3v9x2m7qa, placement: 0, targetClusterID: paris, resources: {cpu: 1}}`,
		[]string{"spec.placement", "should be greater than or equal to 1"},
	},
	"an instruction without a consumer": {
		providerInstruction + `{reservationName: res-k3v9x2m7qa, placement: 1, resources: {cpu: 1}}`,
		[]string{"spec.requesterClusterID: Required value"},
	},
	"an instruction to provide what is no quantity": {
		providerInstruction + `{reservationName: res-k3v9x2m7qa, placement: 1, requesterClusterID: rome, resources: {cpu: one}}`,
		[]string{"spec.resources.cpu", `"one"`},
	},
}

// manyClusters returns n cluster IDs as items of a YAML list.
func manyClusters(n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("cluster-%d", i)
	}
	return strings.Join(ids, ", ")
}
