// Package bounds limits how much of other clusters the ResourceRequests of one namespace may
// ask for. An administrator sets the limits with Kubernetes' own objects: LimitRanges for each
// request, ResourceQuotas for all of them together.
package bounds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

const (
	// LimitType is the type of the items of a LimitRange that bound each
	// ResourceRequest of its namespace, by min and max.
	LimitType corev1.LimitType = "liqo.io/ResourceRequest"
	// Priority stands for spec.priority among the resources of such an item.
	Priority corev1.ResourceName = "liqo.io/priority"
	// quotaPrefix precedes a resource in the hard keys of a ResourceQuota.
	quotaPrefix = "resourcerequests.liqo.io/"
)

// QuotaKey returns the key under which a ResourceQuota bounds the sum of a resource over the
// requests of its namespace: resourcerequests.liqo.io/cpu. A key has only one slash, so the
// slash of an extended resource becomes a dot: resourcerequests.liqo.io/nvidia.com.gpu.
func QuotaKey(name corev1.ResourceName) corev1.ResourceName {
	return corev1.ResourceName(quotaPrefix + strings.ReplaceAll(string(name), "/", "."))
}

// Bounds are the limits of one namespace.
type Bounds struct {
	Limits []corev1.LimitRange
	Quotas []corev1.ResourceQuota
}

// Read fetches the bounds of a namespace.
func Read(ctx context.Context, c client.Reader, namespace string) (Bounds, error) {
	var limits corev1.LimitRangeList
	if err := c.List(ctx, &limits, client.InNamespace(namespace)); err != nil {
		return Bounds{}, fmt.Errorf("listing LimitRanges of namespace %q: %w", namespace, err)
	}
	var quotas corev1.ResourceQuotaList
	if err := c.List(ctx, &quotas, client.InNamespace(namespace)); err != nil {
		return Bounds{}, fmt.Errorf("listing ResourceQuotas of namespace %q: %w", namespace, err)
	}
	return Bounds{Limits: limits.Items, Quotas: quotas.Items}, nil
}

// Sums reports whether a quota bounds the requests of the namespace together.
func (b Bounds) Sums() bool {
	return slices.ContainsFunc(b.Quotas, func(q corev1.ResourceQuota) bool { return CountsRequests(&q) })
}

// CountsRequests reports whether a quota bounds the ResourceRequests of its namespace together.
func CountsRequests(q *corev1.ResourceQuota) bool {
	for key := range q.Spec.Hard {
		if strings.HasPrefix(string(key), quotaPrefix) {
			return true
		}
	}
	return false
}

// Used returns how much the live ResourceRequests of a quota's namespace use of each key that
// bounds them. Kubernetes accepts only whole numbers for such keys, so amounts are rounded up.
func Used(q *corev1.ResourceQuota, requests []agentv1alpha1.ResourceRequest) corev1.ResourceList {
	used := corev1.ResourceList{}
	for key := range q.Spec.Hard {
		if strings.HasPrefix(string(key), quotaPrefix) {
			used[key] = resource.Quantity{}
		}
	}
	for name, amount := range sumLive(nil, requests) {
		if _, bounded := used[QuotaKey(name)]; bounded && name != Priority {
			used[QuotaKey(name)] = *resource.NewQuantity(amount.Value(), amount.Format)
		}
	}
	return used
}

// Check returns the bounds that a request exceeds. Others are the requests that count in its
// namespace. They may include the request itself, which is skipped.
func (b Bounds) Check(rr *agentv1alpha1.ResourceRequest, others []agentv1alpha1.ResourceRequest) field.ErrorList {
	asked := askedBy(rr)
	var errs field.ErrorList
	for _, l := range b.Limits {
		for _, item := range l.Spec.Limits {
			if item.Type == LimitType {
				errs = append(errs, checkItem(l.Name, item, asked)...)
			}
		}
	}
	if len(errs) > 0 || !b.Sums() {
		return errs
	}
	used := sumLive(rr, others)
	for _, q := range b.Quotas {
		errs = append(errs, checkQuota(q.Name, q.Spec.Hard, asked, used)...)
	}
	return errs
}

// checkItem compares a request with one item of a LimitRange. As for pods, a minimum also
// applies to requests that do not name the resource.
func checkItem(limitRange string, item corev1.LimitRangeItem, asked corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(item.Max) {
		if most, q := item.Max[name], asked[name]; q.Cmp(most) > 0 {
			errs = append(errs, field.Invalid(pathOf(name), q.String(),
				fmt.Sprintf("is more than one request of this namespace may ask for: LimitRange %q allows at most %s; ask for less, or have it raised", limitRange, most.String())))
		}
	}
	for _, name := range sortedNames(item.Min) {
		if least, q := item.Min[name], asked[name]; q.Cmp(least) < 0 {
			errs = append(errs, field.Invalid(pathOf(name), q.String(),
				fmt.Sprintf("is less than a request of this namespace must ask for: LimitRange %q wants at least %s; ask for more, or have it lowered", limitRange, least.String())))
		}
	}
	return errs
}

func checkQuota(quota string, hard, asked, used corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(asked) {
		q, key := asked[name], QuotaKey(name)
		most, bounded := hard[key]
		if !bounded || name == Priority || q.IsZero() {
			continue
		}
		before := used[name]
		total := before.DeepCopy()
		total.Add(q)
		if total.Cmp(most) > 0 {
			errs = append(errs, field.Invalid(pathOf(name), q.String(),
				fmt.Sprintf("does not fit: ResourceQuota %q allows %s=%s to the requests of this namespace together, of which %s is asked for already; ask for less, delete a request, or have it raised",
					quota, key, most.String(), before.String())))
		}
	}
	return errs
}

// sumLive adds up the amounts of all live requests except rr, which may be nil.
func sumLive(rr *agentv1alpha1.ResourceRequest, others []agentv1alpha1.ResourceRequest) corev1.ResourceList {
	total := corev1.ResourceList{}
	for i := range others {
		o := &others[i]
		if rr != nil && o.Name == rr.Name || IsOver(o) {
			continue
		}
		for name, q := range askedBy(o) {
			so := total[name]
			so.Add(q)
			total[name] = so
		}
	}
	return total
}

// IsOver reports whether a request holds nothing and never will again.
func IsOver(rr *agentv1alpha1.ResourceRequest) bool {
	return rr.Status.Phase == agentv1alpha1.RequestFailed || rr.Status.Phase == agentv1alpha1.RequestReleased
}

func askedBy(rr *agentv1alpha1.ResourceRequest) corev1.ResourceList {
	asked := corev1.ResourceList{}
	maps.Copy(asked, rr.Spec.Resources)
	if rr.Spec.CPU != nil {
		asked[corev1.ResourceCPU] = *rr.Spec.CPU
	}
	if rr.Spec.Memory != nil {
		asked[corev1.ResourceMemory] = *rr.Spec.Memory
	}
	for name, amount := range podsOf(rr) {
		if q := asked[name]; q.Cmp(quantity.ToQuantity(name, amount)) < 0 {
			asked[name] = quantity.ToQuantity(name, amount)
		}
	}
	asked[Priority] = *resource.NewQuantity(int64(rr.Spec.Priority), resource.DecimalSI)
	return asked
}

// pathOf returns the field that requests a resource.
func pathOf(name corev1.ResourceName) *field.Path {
	spec := field.NewPath("spec")
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory:
		return spec.Child(string(name))
	case Priority:
		return spec.Child("priority")
	}
	return spec.Child("resources").Key(string(name))
}

// sortedNames returns the resources in stable order.
func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// podsOf returns what the request's pods need in total. Per resource, the larger of this and
// the amount that the request names counts. Invalid quantities are skipped here, because the
// broker rejects them.
func podsOf(rr *agentv1alpha1.ResourceRequest) quantity.Amounts {
	var valid []brokerv1alpha1.PodShape
	for _, p := range rr.Spec.PodShapes {
		if _, err := quantity.FromResourceList(corev1.ResourceList(p.Resources)); err == nil {
			valid = append(valid, p)
		}
	}
	return requirements.SumPods(valid)
}
