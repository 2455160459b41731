package playground

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// BrokerCluster is the name of the cluster that runs the broker.
const BrokerCluster = "broker"

// Member is a cluster with nodes and Liqo. Its name is also its cluster ID.
type Member struct {
	Name string
	// Region is the location of the cluster. The cluster's nodes have it as a label, and so do the virtual nodes
	// for this cluster in other clusters.
	Region string
	Nodes  []controlplane.Node
}

// DefaultMembers returns three clusters of different sizes. One of them has GPUs.
func DefaultMembers() []Member {
	gpus := newNode("berlin-2", "8", "32Gi", "eu-central", "eu-central-b")
	gpus.Resources["nvidia.com/gpu"] = resource.MustParse("2")
	return []Member{
		{Name: "rome", Region: "eu-south", Nodes: []controlplane.Node{
			newNode("rome-1", "4", "8Gi", "eu-south", "eu-south-a"),
			newNode("rome-2", "4", "8Gi", "eu-south", "eu-south-b"),
		}},
		{Name: "paris", Region: "eu-west", Nodes: []controlplane.Node{
			newNode("paris-1", "8", "32Gi", "eu-west", "eu-west-a"),
			newNode("paris-2", "8", "32Gi", "eu-west", "eu-west-b"),
		}},
		{Name: "berlin", Region: "eu-central", Nodes: []controlplane.Node{
			newNode("berlin-1", "8", "32Gi", "eu-central", "eu-central-a"),
			gpus,
		}},
	}
}

func newNode(name, cpu, memory, region, zone string) controlplane.Node {
	return controlplane.Node{
		Name: name,
		Resources: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse(cpu),
			corev1.ResourceMemory:           resource.MustParse(memory),
			corev1.ResourcePods:             resource.MustParse("110"),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		},
		Labels: map[string]string{corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: zone},
	}
}

// Cluster is one running cluster of a playground.
type Cluster struct {
	*controlplane.ControlPlane
}

// layout describes one cluster. Kept state can be reused only if the layouts of all clusters have not changed;
// see setupDigest.
type layout struct {
	Name, PodCIDR, ServiceCIDR string
	Liqo                       bool
	Region                     string
	Nodes                      []controlplane.Node
}

// layoutsOf returns the layout of every cluster, with an address range of its own for pods and Services.
func layoutsOf(o Options) []layout {
	layouts := []layout{{Name: BrokerCluster, Nodes: o.BrokerNodes}}
	for _, m := range o.Members {
		layouts = append(layouts, layout{Name: m.Name, Liqo: true, Region: m.Region, Nodes: m.Nodes})
	}
	for i := range layouts {
		second := 200 + 2*i
		layouts[i].PodCIDR, layouts[i].ServiceCIDR = rangeOf(second), rangeOf(second+1)
	}
	return layouts
}

func rangeOf(second int) string { return fmt.Sprintf("10.%d.0.0/16", second) }

func (l layout) options(dir string, tools *toolchain.Toolchain, o Options) controlplane.Options {
	return controlplane.Options{
		Dir: dir, Name: l.Name, Toolchain: tools, Progress: o.Progress, Clock: o.Clock,
		ServiceCIDR: l.ServiceCIDR, PodCIDR: l.PodCIDR,
		ControllerManager: true, Scheduler: len(l.Nodes) > 0, Nodes: l.Nodes, RealPods: o.RealPods,
	}
}

// programsFor returns all programs that the clusters need, without duplicates.
func programsFor(layouts []layout) []toolchain.Tool {
	tools := []toolchain.Tool{
		toolchain.CertManager,
		toolchain.LiqoControllerManager, toolchain.LiqoCRDReplicator, toolchain.LiqoWebhook, toolchain.LiqoVirtualKubelet,
	}
	for _, l := range layouts {
		for _, tool := range l.options("", nil, Options{}).Programs() {
			if !slices.Contains(tools, tool) {
				tools = append(tools, tool)
			}
		}
	}
	return tools
}

func liqoChart(ctx context.Context, tools *toolchain.Toolchain) (string, error) {
	dir, err := tools.ModuleDir(ctx, toolchain.LiqoWebhook.Module, "github.com/liqotech/liqo")
	return filepath.Join(dir, "deployments", "liqo"), err
}

// startLiqo starts Liqo and returns when Liqo answers. Liqo's virtual kubelets run until background ends.
func (c *Cluster) startLiqo(ctx, background context.Context, l layout, chart string, tools *toolchain.Toolchain, o Options) error {
	defer o.Progress.Begin(l.Name + ": Liqo")()
	installed, err := liqo.Start(ctx, liqo.Cluster{
		ControlPlane: c.ControlPlane, PodCIDR: l.PodCIDR, ServiceCIDR: l.ServiceCIDR, Chart: chart, Clock: o.Clock,
		Labels: map[string]string{corev1.LabelTopologyRegion: l.Region},
		Binaries: liqo.Binaries{
			ControllerManager: tools.Path(toolchain.LiqoControllerManager),
			CRDReplicator:     tools.Path(toolchain.LiqoCRDReplicator),
			Webhook:           tools.Path(toolchain.LiqoWebhook),
			VirtualKubelet:    tools.Path(toolchain.LiqoVirtualKubelet),
		},
	})
	if err != nil {
		return err
	}
	return installed.LaunchKubelets(background)
}
