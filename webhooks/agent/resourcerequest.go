package agent

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// CheckResourceRequest validates a request against the bounds of its namespace. others are the
// requests of that namespace; closed are the namespaces that it names and that are not open to
// it.
func CheckResourceRequest(rr *agentv1alpha1.ResourceRequest, b bounds.Bounds, others []agentv1alpha1.ResourceRequest, closed []string) webhooks.Verdict {
	var v webhooks.Verdict
	checkAmounts(&v, rr)
	checkRequirements(&v, rr)
	if len(v.Errors) == 0 {
		v.Refuse(b.Check(rr, others)...)
	}
	warnOfNamespaces(&v, rr, closed)
	return v
}

// checkRequirements refuses requirements that the broker cannot parse.
func checkRequirements(v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest) {
	if _, err := requirements.Read(&rr.Spec.Requirements); err != nil {
		v.Refuse(field.Invalid(field.NewPath("spec"), "", err.Error()))
	}
}

func checkAmounts(v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest) {
	spec := field.NewPath("spec")
	check := func(path *field.Path, list corev1.ResourceList) {
		if _, err := quantity.FromResourceList(list); err != nil {
			v.Refuse(field.Invalid(path, "", err.Error()+": ask for an amount that a cluster can have"))
		}
	}
	if rr.Spec.CPU != nil {
		check(spec.Child("cpu"), corev1.ResourceList{corev1.ResourceCPU: *rr.Spec.CPU})
	}
	if rr.Spec.Memory != nil {
		check(spec.Child("memory"), corev1.ResourceList{corev1.ResourceMemory: *rr.Spec.Memory})
	}
	for name, q := range rr.Spec.Resources {
		path := spec.Child("resources").Key(string(name))
		if err := quantity.CheckName(name); err != nil {
			v.Refuse(field.Invalid(path, string(name), err.Error()))
			continue
		}
		check(path, corev1.ResourceList{name: q})
	}
}

// warnOfNamespaces only warns, because a namespace may open later, and the request then
// offloads it.
func warnOfNamespaces(v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest, closed []string) {
	if rr.Spec.Namespaces == nil {
		return
	}
	for i, name := range *rr.Spec.Namespaces {
		for _, c := range closed {
			if c == name {
				v.Warn("%s: namespace %q is not open to requests of other namespaces, or does not exist; its pods stay here until: kubectl label namespace %s %s=true",
					field.NewPath("spec", "namespaces").Index(i), name, name, agentv1alpha1.OffloadLabel)
			}
		}
	}
}
