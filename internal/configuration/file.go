package configuration

// What every file begins with.
const (
	APIVersion = "agent.fluidos.eu/v1alpha1"
	Kind       = "AgentConfiguration"
)

// file is the configuration file, as text: Parse reads what the texts mean. All of it but
// apiVersion and kind is optional.
type file struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Cluster    cluster `yaml:"cluster"`
	Offer      offer   `yaml:"offer"`
	Prices     prices  `yaml:"prices"`
}

// cluster is what the cluster says of itself.
type cluster struct {
	Region string            `yaml:"region"`
	Zone   string            `yaml:"zone"`
	Labels map[string]string `yaml:"labels"`
}

// offer is how much of what is free is lent.
type offer struct {
	// NodeSelector selects the nodes that are lent, as kubectl's --selector does.
	NodeSelector string `yaml:"nodeSelector"`
	// Share and Headroom hold for every resource that has none of its own.
	Share     string              `yaml:"share"`
	Headroom  string              `yaml:"headroom"`
	Resources map[string]resource `yaml:"resources"`
}

// resource is how much of one resource is lent.
type resource struct {
	// Share is a percentage of what is free, Headroom a percentage of allocatable or a
	// quantity.
	Share    string `yaml:"share"`
	Headroom string `yaml:"headroom"`
	// Cap, Minimum and Step are quantities.
	Cap     string `yaml:"cap"`
	Minimum string `yaml:"minimum"`
	Step    string `yaml:"step"`
	// OverSubscription is a decimal number from 1 to 10.
	OverSubscription string `yaml:"overSubscription"`
}

// prices are decimal numbers, for one hour of a core, a GiB or a piece.
type prices struct {
	// File has them in place of what stands here, with the same keys.
	File string `yaml:"file"`
	// NodeLabels or OpenCost have those of cores, memory and pieces, node by node.
	NodeLabels    *nodeLabels       `yaml:"nodeLabels"`
	OpenCost      *openCost         `yaml:"openCost"`
	Currency      string            `yaml:"currency"`
	CPUCost       string            `yaml:"cpuCost"`
	MemoryCost    string            `yaml:"memoryCost"`
	StorageCost   string            `yaml:"storageCost"`
	EgressCost    string            `yaml:"egressCost"`
	ResourceCosts map[string]string `yaml:"resourceCosts"`
}

// nodeLabels are the keys of the labels in which nodes have their prices.
type nodeLabels struct {
	CPUCost       string            `yaml:"cpuCost"`
	MemoryCost    string            `yaml:"memoryCost"`
	ResourceCosts map[string]string `yaml:"resourceCosts"`
}

// openCost is OpenCost in this cluster.
type openCost struct {
	// URL of its metrics.
	URL string `yaml:"url"`
}
