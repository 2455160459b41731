package agent

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// CheckResourceRequest validates a ResourceRequest of the cluster clusterID. others are the other
// requests in its namespace, which also count towards the bounds b. access says which of the named
// namespaces the request can offload.
func CheckResourceRequest(rr *agentv1alpha1.ResourceRequest, clusterID string, b bounds.Bounds, others []agentv1alpha1.ResourceRequest, access namespaces.Access) webhooks.Verdict {
	var v webhooks.Verdict
	amounts := checkAmounts(&v, rr)
	v.CheckRequirements(field.NewPath("spec"), clusterID, amounts, &rr.Spec.Requirements)
	checkNamespaces(&v, rr, access)
	warnOfLongNames(&v, rr, clusterID)
	if len(v.Errors) == 0 {
		if err := requirements.CheckNode(amounts.Max(requirements.SumPods(rr.Spec.PodShapes))); err != nil {
			v.Refuse(field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error()))
		}
	}
	if len(v.Errors) == 0 {
		v.Refuse(b.Check(rr, others)...)
	}
	if len(v.Errors) == 0 {
		v.WarnOfIdle(field.NewPath("spec"), rr.Spec.Idle, rr.Spec.Duration)
	}
	return v
}

// checkAmounts returns the valid amounts in the request, and refuses the invalid ones.
func checkAmounts(v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest) quantity.Amounts {
	spec, amounts := field.NewPath("spec"), quantity.Amounts{}
	if rr.Spec.CPU != nil {
		v.ReadAmount(amounts, spec.Child("cpu"), corev1.ResourceCPU, *rr.Spec.CPU)
	}
	if rr.Spec.Memory != nil {
		v.ReadAmount(amounts, spec.Child("memory"), corev1.ResourceMemory, *rr.Spec.Memory)
	}
	for name, q := range rr.Spec.Resources {
		v.ReadAmount(amounts, spec.Child("resources").Key(string(name)), name, q)
	}
	return amounts
}

// warnOfLongNames warns of namespaces whose name at providers would be longer than Kubernetes allows.
func warnOfLongNames(v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest, clusterID string) {
	if o := rr.Spec.Offloading; o != nil && o.NamespaceMappingStrategy == agentv1alpha1.NamespaceMappingEnforceSameName {
		return
	}
	names := []string{rr.Namespace}
	if rr.Spec.Namespaces != nil {
		names = *rr.Spec.Namespaces
	}
	for _, name := range names {
		if remote := name + "-" + clusterID; len(remote) > validation.DNS1123LabelMaxLength {
			v.Warn("namespace %q cannot be offloaded: it would be %q at providers, which is longer than %d characters: use a namespace with a shorter name",
				name, remote, validation.DNS1123LabelMaxLength)
		}
	}
}

// checkNamespaces refuses a request that offloads a system namespace. It only warns about
// namespaces that do not exist or do not allow the request to offload them, because this may
// change.
func checkNamespaces(v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest, access namespaces.Access) {
	if rr.Spec.Namespaces == nil {
		for _, name := range access.System {
			v.Refuse(field.Invalid(field.NewPath("metadata", "namespace"), name,
				"is a system namespace, whose pods cannot be offloaded: create the request in another namespace, or set spec.namespaces"))
		}
		return
	}
	for i, name := range *rr.Spec.Namespaces {
		path := field.NewPath("spec", "namespaces").Index(i)
		switch {
		case slices.Contains(access.System, name):
			v.Refuse(field.Invalid(path, name, "is a system namespace, which cannot be offloaded: leave it out"))
		case slices.Contains(access.Missing, name):
			v.Warn("%s: namespace %q does not exist; capacity is reserved, but nothing runs there until it does, with label %s=%s", path, name, agentv1alpha1.OffloadLabel, rr.Namespace)
		case slices.Contains(access.Closed, name):
			v.Warn("%s: namespace %q is not open to requests of namespace %q; its pods stay here until: kubectl label namespace %s %s=%s", path, name, rr.Namespace, name, agentv1alpha1.OffloadLabel, rr.Namespace)
		case slices.Contains(access.LocalOnly, name):
			v.Warn("%s: namespace %q is open only to podOffloadingStrategy Local without podCompliance Enforce; its pods stay here: leave spec.offloading out, or make a request in that namespace", path, name)
		}
	}
}
