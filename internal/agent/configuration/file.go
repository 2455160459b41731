package configuration

// APIVersion and Kind must be the apiVersion and kind of every configuration file.
const (
	APIVersion = "agent.fluidos.eu/v1alpha1"
	Kind       = "AgentConfiguration"
)

// file is the decoded configuration file. Parse interprets its values. Everything except
// apiVersion and kind is optional.
type file struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Cluster    cluster `yaml:"cluster"`
	Offer      offer   `yaml:"offer"`
	Prices     prices  `yaml:"prices"`
}

// cluster is the section that describes the cluster.
type cluster struct {
	Region string            `yaml:"region"`
	Zone   string            `yaml:"zone"`
	Labels map[string]string `yaml:"labels"`
	Claims map[string]string `yaml:"claims"`
}

// offer is the section that limits how much free capacity is lent.
type offer struct {
	// NodeSelector selects the nodes whose capacity is lent, in the syntax of kubectl's --selector.
	NodeSelector string `yaml:"nodeSelector"`
	// Taints lists taints. A node with one of these taints is lent only to requests that tolerate
	// the taint. Each taint is written in the syntax of kubectl taint.
	Taints []string `yaml:"taints"`
	// Share and Headroom apply to every resource that does not set its own.
	Share     string              `yaml:"share"`
	Headroom  string              `yaml:"headroom"`
	Resources map[string]resource `yaml:"resources"`
	// Elastic lists groups of nodes that the cluster creates on demand.
	Elastic []nodeGroup `yaml:"elastic"`
}

// nodeGroup describes a group of nodes that the cluster creates on demand.
type nodeGroup struct {
	Name string `yaml:"name"`
	// Nodes is how many nodes the group may have.
	Nodes int64 `yaml:"nodes"`
	// Each holds, by resource, what pods can request on a new node.
	Each   map[string]string `yaml:"each"`
	Labels map[string]string `yaml:"labels"`
	// Taints are written in the syntax of kubectl taint.
	Taints []string `yaml:"taints"`
	// ReadyWithin is how long the creation of nodes may take, as a duration such as 8m.
	ReadyWithin string `yaml:"readyWithin"`
}

// resource limits how much of one resource is lent.
type resource struct {
	// Share is how much of the free capacity may be lent, as a percentage. Headroom is how much is
	// kept free, as a percentage of allocatable or as a quantity.
	Share    string `yaml:"share"`
	Headroom string `yaml:"headroom"`
	// Cap, Minimum and Step are quantities.
	Cap     string `yaml:"cap"`
	Minimum string `yaml:"minimum"`
	Step    string `yaml:"step"`
	// OverSubscription is a decimal number from 1 to 10.
	OverSubscription string `yaml:"overSubscription"`
}

// prices are texts with decimal numbers: the price per hour of a core, a GiB or a device.
type prices struct {
	// File is the path of a file that contains the prices instead of this section, under the same
	// keys.
	File string `yaml:"file"`
	// NodeLabels and OpenCost are sources for the prices of cores, memory and devices of each node.
	// At most one of them may be set.
	NodeLabels    *nodeLabels       `yaml:"nodeLabels"`
	OpenCost      *openCost         `yaml:"openCost"`
	Currency      string            `yaml:"currency"`
	CPUCost       string            `yaml:"cpuCost"`
	MemoryCost    string            `yaml:"memoryCost"`
	StorageCost   string            `yaml:"storageCost"`
	EgressCost    string            `yaml:"egressCost"`
	ResourceCosts map[string]string `yaml:"resourceCosts"`
}

// nodeLabels names node labels whose values are prices, by their keys.
type nodeLabels struct {
	CPUCost       string            `yaml:"cpuCost"`
	MemoryCost    string            `yaml:"memoryCost"`
	ResourceCosts map[string]string `yaml:"resourceCosts"`
}

// openCost says where to find OpenCost in this cluster.
type openCost struct {
	// URL of OpenCost's metrics.
	URL string `yaml:"url"`
}
