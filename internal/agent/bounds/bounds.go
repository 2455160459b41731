// Package bounds limits how much capacity of other clusters the ResourceRequests of a namespace may
// ask for. Administrators set the limits with Kubernetes' own objects: a LimitRange limits each
// request, a ResourceQuota limits the sum of all requests.
package bounds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

const (
	// LimitType is the item type in a LimitRange whose min and max limit each ResourceRequest of the
	// namespace.
	LimitType corev1.LimitType = "liqo.io/ResourceRequest"
	// Priority is the name under which an item of type LimitType limits spec.priority. Priority is not
	// a resource, but a LimitRange has no other place for it.
	Priority corev1.ResourceName = "liqo.io/priority"
	// quotaPrefix precedes the name of a resource in the keys of a ResourceQuota's spec.hard.
	quotaPrefix = "resourcerequests.liqo.io/"
)

// QuotaKey returns the key with which a ResourceQuota limits the sum of a resource over all
// ResourceRequests of its namespace, for example resourcerequests.liqo.io/cpu. A key may contain
// only one slash, so a slash in the resource's name becomes a dot:
// resourcerequests.liqo.io/nvidia.com.gpu.
func QuotaKey(name corev1.ResourceName) corev1.ResourceName {
	return corev1.ResourceName(quotaPrefix + strings.ReplaceAll(string(name), "/", "."))
}

// Bounds are the LimitRanges and ResourceQuotas of one namespace.
type Bounds struct {
	Limits []corev1.LimitRange
	Quotas []corev1.ResourceQuota
}

// fromWatchCache lets the API server answer a list from its watch cache, like an informer that is up to date. Without
// this option, the API server waits up to 100 ms until it knows that etcd contains nothing newer. Kubernetes reads
// LimitRanges and ResourceQuotas in the same way when it admits pods.
func fromWatchCache() client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}} // a new value for each call, because clients change it
}

// Read fetches the bounds of a namespace. It may miss changes of the last few milliseconds.
func Read(ctx context.Context, c client.Reader, namespace string) (Bounds, error) {
	var limits corev1.LimitRangeList
	if err := c.List(ctx, &limits, fromWatchCache(), client.InNamespace(namespace)); err != nil {
		return Bounds{}, fmt.Errorf("listing LimitRanges of namespace %q: %w", namespace, err)
	}
	var quotas corev1.ResourceQuotaList
	if err := c.List(ctx, &quotas, fromWatchCache(), client.InNamespace(namespace)); err != nil {
		return Bounds{}, fmt.Errorf("listing ResourceQuotas of namespace %q: %w", namespace, err)
	}
	return Bounds{Limits: limits.Items, Quotas: quotas.Items}, nil
}

// Sums reports whether a ResourceQuota limits the sum of the namespace's ResourceRequests.
func (b Bounds) Sums() bool {
	return slices.ContainsFunc(b.Quotas, func(q corev1.ResourceQuota) bool { return CountsRequests(&q) })
}

// CountsRequests reports whether a quota limits the sum of ResourceRequests.
func CountsRequests(q *corev1.ResourceQuota) bool {
	for key := range q.Spec.Hard {
		if strings.HasPrefix(string(key), quotaPrefix) {
			return true
		}
	}
	return false
}

// Used returns, for each key with which the quota limits ResourceRequests, the sum of what the
// requests ask for. It leaves out requests for which IsOver is true. Amounts are rounded up,
// because Kubernetes accepts only whole numbers for these keys.
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

// Check returns an error for each limit of a LimitRange that a request violates. If it violates
// none, Check returns an error for each limit of a ResourceQuota that it exceeds. others are the
// requests that count against the quotas of its namespace. If they contain an earlier version of
// the request itself, Check skips it.
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

// checkItem compares a request with one item of a LimitRange. A minimum also applies to a request
// that does not name the resource. Kubernetes applies minimums to pods in the same way.
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

// sumLive adds up the amounts of all requests that are not over, except rr, which may be nil.
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

// IsOver reports whether a request has failed or was released, so that it no longer counts.
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

// pathOf returns the path of the field in which a request names the amount of a resource.
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

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// podsOf returns the sum of the resources of the request's podShapes. It skips invalid shapes,
// because the broker refuses them anyway.
func podsOf(rr *agentv1alpha1.ResourceRequest) quantity.Amounts {
	var valid []brokerv1alpha1.PodShape
	for _, p := range rr.Spec.PodShapes {
		if _, err := quantity.FromResourceList(corev1.ResourceList(p.Resources)); err == nil {
			valid = append(valid, p)
		}
	}
	return requirements.SumPods(valid)
}
