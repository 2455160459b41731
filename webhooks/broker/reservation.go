package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

var spec = field.NewPath("spec")

// CheckReservation validates a Reservation against the BrokerConfig and the known clusters. If no
// cluster is known, it does not check the size.
//
// A Reservation that is too large for every cluster is admitted with a warning. The broker lets it
// fail or wait, and shows the reason for each cluster.
func CheckReservation(r *brokerv1alpha1.Reservation, config *brokerv1alpha1.BrokerConfigSpec, clusters []brokerv1alpha1.ClusterAdvertisement) webhooks.Verdict {
	var v webhooks.Verdict
	if r.Labels[brokerv1alpha1.ManagedByLabel] == brokerv1alpha1.ManagedByBroker {
		v.Refuse(field.Forbidden(field.NewPath("metadata", "labels").Key(brokerv1alpha1.ManagedByLabel),
			"marks objects that the broker creates: leave it out"))
	}
	checkTakesPart(&v, spec.Child("requesterID"), r.Spec.RequesterID, config, clusters)
	checkTarget(&v, r, config, clusters)

	path := spec.Child("requestedResources")
	amounts := quantity.Amounts{}
	for _, name := range slices.Sorted(maps.Keys(r.Spec.RequestedResources)) {
		v.ReadAmount(amounts, path.Key(string(name)), name, r.Spec.RequestedResources[name])
	}
	if err := requests.CheckAmounts(amounts); err != nil && len(v.Errors) == 0 && len(r.Spec.PodShapes) == 0 {
		v.Refuse(field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	v.CheckRequirements(spec, r.Spec.RequesterID, amounts, &r.Spec.Requirements)
	if len(v.Errors) == 0 {
		// CheckRequirements refuses everything else that the broker would refuse.
		if err := requests.CheckRequirements(amounts, r.Spec.Requirements); err != nil {
			v.Refuse(field.Invalid(spec, field.OmitValueType{}, err.Error()))
		}
	}
	checkBounds(&v, r, amounts, config)
	if len(v.Errors) == 0 {
		warnOfSize(&v, r, amounts, clusters)
		warnOfConstraints(&v, r.Spec.Constraints, config, clusters)
		v.WarnOfIdle(spec, r.Spec.Idle, r.Spec.Duration)
		warnOfIdleBound(&v, r.Spec.Idle, config.Idle)
	}
	return v
}

// warnOfIdleBound warns of an idle time that has no effect, because the BrokerConfig sets a shorter one.
func warnOfIdleBound(v *webhooks.Verdict, idle, bound *brokerv1alpha1.Idle) {
	if idle != nil && bound != nil && bound.Action == brokerv1alpha1.IdleRelease && idle.After.Duration > bound.After.Duration {
		v.Warn("%s: BrokerConfig.spec.idle releases the reservation after %s already", spec.Child("idle", "after"), bound.After.Duration)
	}
}

// warnOfConstraints warns of unknown clusters, and of regions and zones in which no known cluster
// is. It also warns if maxPrice is in a currency without an exchange rate and no known cluster has
// prices in this currency. It refuses nothing, because a suitable cluster may appear later.
func warnOfConstraints(v *webhooks.Verdict, k *brokerv1alpha1.Constraints, config *brokerv1alpha1.BrokerConfigSpec, clusters []brokerv1alpha1.ClusterAdvertisement) {
	if k == nil || len(clusters) == 0 {
		return
	}
	path := spec.Child("constraints")
	var ids, regions, zones, currencies []string
	for i := range clusters {
		c := &clusters[i].Spec
		ids = append(ids, c.ClusterID)
		if c.Topology != nil {
			regions, zones = append(regions, c.Topology.Region), append(zones, c.Topology.Zone)
		}
		if c.Cost != nil {
			currencies = append(currencies, c.Cost.Currency)
		}
	}
	warnOfUnknown(v, path.Child("includeClusters"), "cluster", k.IncludeClusters, ids)
	warnOfUnknown(v, path.Child("excludeClusters"), "cluster", k.ExcludeClusters, ids)
	warnOfUnknown(v, path.Child("regions"), "region", k.Regions, regions)
	warnOfUnknown(v, path.Child("zones"), "zone", k.Zones, zones)
	if k.MaxPrice == nil {
		return
	}
	if rates := config.ExchangeRates; rates != nil {
		currencies = append(currencies, rates.Base)
		for code := range rates.Rates {
			currencies = append(currencies, code)
		}
	}
	if known := sortedNames(currencies); !slices.Contains(known, k.MaxPrice.Currency) {
		v.Warn("%s: no cluster has prices in %s, and BrokerConfig.spec.exchangeRates has no rate for it%s",
			path.Child("maxPrice", "currency"), k.MaxPrice.Currency, listKnown(known))
	}
}

func warnOfUnknown(v *webhooks.Verdict, path *field.Path, what string, named, advertised []string) {
	known := sortedNames(advertised)
	for i, name := range named {
		if !slices.Contains(known, name) {
			v.Warn("%s: no cluster advertises %s %q%s", path.Index(i), what, name, listKnown(known))
		}
	}
}

// sortedNames returns the names sorted, without duplicates and without empty names.
func sortedNames(names []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	return slices.DeleteFunc(sorted, func(name string) bool { return name == "" })
}

func listKnown(known []string) string {
	if len(known) == 0 {
		return ""
	}
	return "; known are " + joinSome(known)
}

// checkTakesPart refuses the ID of a cluster that BrokerConfig denies, or that has an agent and is
// not approved. Clusters without an agent, and requesterIDs that are only labels, need no approval.
func checkTakesPart(v *webhooks.Verdict, path *field.Path, id string, config *brokerv1alpha1.BrokerConfigSpec, clusters []brokerv1alpha1.ClusterAdvertisement) {
	policy := access.PolicyOf(config)
	if err := policy.Check(id); err != nil && (policy.Denied(id) || hasAgent(id, clusters)) {
		v.Refuse(field.Forbidden(path, err.Error()+"; or name another cluster"))
	}
}

func checkTarget(v *webhooks.Verdict, r *brokerv1alpha1.Reservation, config *brokerv1alpha1.BrokerConfigSpec, clusters []brokerv1alpha1.ClusterAdvertisement) {
	target, path := r.Spec.TargetClusterID, spec.Child("targetClusterID")
	if target == "" {
		return
	}
	if target == r.Spec.RequesterID {
		v.Refuse(field.Invalid(path, target, "is the requester itself: name another cluster, or leave it out"))
		return
	}
	checkTakesPart(v, path, target, config, clusters)
	if len(clusters) > 0 && !isKnown(target, clusters) {
		v.Warn("%s: no cluster %q has advertised: the reservation fails unless it does so in time; known are %s", path, target, clusterNames(clusters))
	}
}

func checkBounds(v *webhooks.Verdict, r *brokerv1alpha1.Reservation, amounts quantity.Amounts, config *brokerv1alpha1.BrokerConfigSpec) {
	bounds, err := requests.BoundsOf(config)
	if err != nil {
		// The broker keeps using the last valid BrokerConfig, and reports this in the status of
		// the BrokerConfig.
		v.Warn("BrokerConfig.spec.%v; the limits of the last valid BrokerConfig apply, which were in force before", err)
		return
	}
	var duration time.Duration
	if r.Spec.Duration != nil {
		duration = r.Spec.Duration.Duration
	}
	for _, e := range bounds.Excesses(amounts, duration) {
		path := spec.Child("duration")
		if e.Resource != "" {
			path = spec.Child("requestedResources").Key(string(e.Resource))
		}
		v.Refuse(field.Invalid(path, e.Asked, e.Advice()))
	}
}

// warnOfSize compares with what a cluster can lend when nothing is in use, not with what is free now.
func warnOfSize(v *webhooks.Verdict, r *brokerv1alpha1.Reservation, amounts quantity.Amounts, clusters []brokerv1alpha1.ClusterAdvertisement) {
	var short []string
	for i := range clusters {
		c := &clusters[i].Spec
		if c.ClusterID == r.Spec.RequesterID || r.Spec.TargetClusterID != "" && c.ClusterID != r.Spec.TargetClusterID {
			continue
		}
		offered := c.Resources.Allocatable
		if offered == nil {
			offered = c.Resources.Capacity
		}
		whole, err := quantity.FromResourceList(offered)
		if err != nil {
			continue // the status of the ClusterAdvertisement reports that
		}
		ratios, err := quantity.ParseRatios(clusters[i].Status.OverSubscription)
		if err != nil {
			return // cannot happen: only the broker writes it
		}
		lack, fits := quantity.Fits(amounts, whole.Stretched(ratios))
		if fits {
			return
		}
		short = append(short, fmt.Sprintf("%s has %s %s", c.ClusterID, quantity.Format(lack.Resource, lack.Have), lack.Resource))
	}
	if len(short) > 0 {
		slices.Sort(short)
		outcome := "so the reservation fails"
		if r.Spec.QueuePolicy == brokerv1alpha1.QueuePolicyQueue {
			outcome = "so the reservation waits until one grows, or fails when queueTimeout is over"
		}
		v.Warn("%s: larger than every known cluster, %s: ask for less, or in several reservations (%s)",
			spec.Child("requestedResources"), outcome, joinSome(short))
	}
}

func isKnown(id string, clusters []brokerv1alpha1.ClusterAdvertisement) bool {
	return slices.ContainsFunc(clusters, func(c brokerv1alpha1.ClusterAdvertisement) bool { return c.Spec.ClusterID == id })
}

// hasAgent relies on ManagedByLabel, which the broker sets for clusters with an agent.
func hasAgent(id string, clusters []brokerv1alpha1.ClusterAdvertisement) bool {
	return slices.ContainsFunc(clusters, func(c brokerv1alpha1.ClusterAdvertisement) bool {
		return c.Spec.ClusterID == id && c.Labels[brokerv1alpha1.ManagedByLabel] == brokerv1alpha1.ManagedByBroker
	})
}

func clusterNames(clusters []brokerv1alpha1.ClusterAdvertisement) string {
	names := make([]string, len(clusters))
	for i := range clusters {
		names[i] = clusters[i].Spec.ClusterID
	}
	slices.Sort(names)
	return joinSome(slices.Compact(names))
}

// joinSome keeps a warning within the API server's limit.
func joinSome(items []string) string {
	const most = 5
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}
