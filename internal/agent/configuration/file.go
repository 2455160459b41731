package configuration

// Header of every file.
const (
	APIVersion = "agent.fluidos.eu/v1alpha1"
	Kind       = "AgentConfiguration"
)

// file is the configuration file as text; Parse interprets the values. Everything but
// apiVersion and kind is optional.
type file struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Cluster    cluster `yaml:"cluster"`
	Offer      offer   `yaml:"offer"`
	Prices     prices  `yaml:"prices"`
}

// cluster describes the cluster.
type cluster struct {
	Region string            `yaml:"region"`
	Zone   string            `yaml:"zone"`
	Labels map[string]string `yaml:"labels"`
	Claims map[string]string `yaml:"claims"`
}

// offer limits how much free capacity is lent.
type offer struct {
	// NodeSelector selects the nodes to lend from, in the syntax of kubectl's --selector.
	NodeSelector string `yaml:"nodeSelector"`
	// Taints are those of nodes to lend to requests that tolerate them, in the syntax of kubectl
	// taint.
	Taints []string `yaml:"taints"`
	// Share and Headroom are the defaults for resources that set none.
	Share     string              `yaml:"share"`
	Headroom  string              `yaml:"headroom"`
	Resources map[string]resource `yaml:"resources"`
}

// resource limits how much of one resource is lent.
type resource struct {
	// Share is a percentage of free capacity, Headroom a percentage of allocatable or a quantity.
	Share    string `yaml:"share"`
	Headroom string `yaml:"headroom"`
	// Cap, Minimum and Step are quantities.
	Cap     string `yaml:"cap"`
	Minimum string `yaml:"minimum"`
	Step    string `yaml:"step"`
	// OverSubscription is a decimal number from 1 to 10.
	OverSubscription string `yaml:"overSubscription"`
}

// prices are decimal numbers per hour of a core, a GiB or a device.
type prices struct {
	// File names a file that holds the prices instead, with the same keys.
	File string `yaml:"file"`
	// NodeLabels or OpenCost provide the prices of cores, memory and devices per node.
	NodeLabels    *nodeLabels       `yaml:"nodeLabels"`
	OpenCost      *openCost         `yaml:"openCost"`
	Currency      string            `yaml:"currency"`
	CPUCost       string            `yaml:"cpuCost"`
	MemoryCost    string            `yaml:"memoryCost"`
	StorageCost   string            `yaml:"storageCost"`
	EgressCost    string            `yaml:"egressCost"`
	ResourceCosts map[string]string `yaml:"resourceCosts"`
}

// nodeLabels are the keys of the node labels that hold prices.
type nodeLabels struct {
	CPUCost       string            `yaml:"cpuCost"`
	MemoryCost    string            `yaml:"memoryCost"`
	ResourceCosts map[string]string `yaml:"resourceCosts"`
}

// openCost locates OpenCost in this cluster.
type openCost struct {
	// URL of its metrics.
	URL string `yaml:"url"`
}
