package broker

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// CheckClusterAdvertisement validates a ClusterAdvertisement that an administrator writes. others
// are the existing ClusterAdvertisements. It does not check reserved and available, which the
// broker overwrites.
func CheckClusterAdvertisement(a *brokerv1alpha1.ClusterAdvertisement, config *brokerv1alpha1.BrokerConfigSpec, others []brokerv1alpha1.ClusterAdvertisement) webhooks.Verdict {
	var v webhooks.Verdict
	checkTakesPart(&v, spec.Child("clusterID"), a.Spec.ClusterID, config, others)
	for i := range others {
		o := &others[i]
		if o.Spec.ClusterID == a.Spec.ClusterID && (o.Namespace != a.Namespace || o.Name != a.Name) {
			v.Refuse(field.Invalid(spec.Child("clusterID"), a.Spec.ClusterID,
				fmt.Sprintf("ClusterAdvertisement %s/%s already exists for this cluster: change that one, or delete it first", o.Namespace, o.Name)))
		}
	}
	checkResources(&v, &a.Spec)
	checkCurrency(&v, a.Spec.Cost)
	if len(v.Errors) > 0 {
		return v
	}
	// CheckOffer refuses everything else that the broker would refuse.
	if err := specs.CheckOffer(a); err != nil {
		v.Refuse(field.Invalid(spec, "", err.Error()))
	}
	return v
}

func checkResources(v *webhooks.Verdict, s *brokerv1alpha1.ClusterAdvertisementSpec) {
	path := spec.Child("resources")
	capacity := readAmounts(v, path.Child("capacity"), s.Resources.Capacity)
	allocatable, allocated := capacity, readAmounts(v, path.Child("allocated"), s.Resources.Allocated)
	if s.Resources.Allocatable != nil {
		allocatable = readAmounts(v, path.Child("allocatable"), s.Resources.Allocatable)
	}
	for i, shape := range s.NodeShapes {
		readAmounts(v, spec.Child("nodeShapes").Index(i).Child("free"), shape.Free)
	}
	if len(v.Errors) > 0 {
		return
	}
	if capacity.IsZero() {
		v.Warn("%s: the cluster offers nothing", path.Child("capacity"))
	}
	for _, name := range allocatable.Names() {
		if allocatable[name] > capacity[name] {
			v.Refuse(field.Invalid(path.Child("allocatable").Key(string(name)), quantity.Format(name, allocatable[name]),
				fmt.Sprintf("is more than the capacity, %s: lower it, or raise spec.resources.capacity", quantity.Format(name, capacity[name]))))
		}
	}
	for _, name := range allocated.Names() {
		if allocated[name] > allocatable[name] {
			v.Warn("%s: %s is more than can be allocated, %s: nothing of it can be reserved", path.Child("allocated").Key(string(name)),
				quantity.Format(name, allocated[name]), quantity.Format(name, allocatable[name]))
		}
	}
}

func readAmounts(v *webhooks.Verdict, path *field.Path, list corev1.ResourceList) quantity.Amounts {
	out := quantity.Amounts{}
	for name, q := range list {
		amount, err := quantity.FromResource(name, q)
		if err != nil {
			v.Refuse(field.Invalid(path.Key(string(name)), q.String(), err.Error()+": give the amount that the cluster has"))
			continue
		}
		out[name] = amount
	}
	return out
}

// checkCurrency warns of prices without a currency. Such prices cannot be compared, so the broker
// treats the cluster as one without prices. checkCurrency also refuses prices of cpu and memory in
// resourceCosts, because they have fields of their own.
func checkCurrency(v *webhooks.Verdict, c *brokerv1alpha1.Cost) {
	if c == nil {
		return
	}
	priced := c.CPUCost != "" || c.MemoryCost != "" || len(c.ResourceCosts) > 0
	if priced && c.Currency == "" {
		v.Warn("%s: prices without a currency are not compared: set it, for example EUR", spec.Child("cost", "currency"))
	}
	for name := range c.ResourceCosts {
		switch path := spec.Child("cost", "resourceCosts").Key(string(name)); name {
		case corev1.ResourceCPU:
			v.Refuse(field.Invalid(path, string(name), "the price of a core-hour is spec.cost.cpuCost"))
		case corev1.ResourceMemory:
			v.Refuse(field.Invalid(path, string(name), "the price of a GiB-hour is spec.cost.memoryCost"))
		}
	}
}
