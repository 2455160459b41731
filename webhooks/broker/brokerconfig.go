package broker

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// CheckBrokerConfig validates a BrokerConfig. It refuses fields that contradict each other, and
// warns of IDs of clusters that are not known.
func CheckBrokerConfig(c *brokerv1alpha1.BrokerConfig, clusters []brokerv1alpha1.ClusterAdvertisement) webhooks.Verdict {
	var v webhooks.Verdict
	checkPresetAndWeights(&v, &c.Spec)
	checkLifetimes(&v, &c.Spec)
	checkMaxPerReservation(&v, &c.Spec)
	checkLists(&v, c)
	warnOfLists(&v, c, clusters)
	if len(v.Errors) > 0 {
		return v
	}
	// ReadConfig refuses everything else that would make the broker ignore the configuration.
	if _, err := specs.ReadConfig(&c.Spec); err != nil {
		v.Refuse(field.Invalid(spec, "", err.Error()))
	}
	return v
}

func checkPresetAndWeights(v *webhooks.Verdict, s *brokerv1alpha1.BrokerConfigSpec) {
	if s.ScoringPreset != "" && s.ScoringWeights != nil {
		v.Refuse(field.Invalid(spec.Child("scoringWeights"), "", "set scoringPreset or scoringWeights, not both"))
	}
}

func checkLifetimes(v *webhooks.Verdict, s *brokerv1alpha1.BrokerConfigSpec) {
	if s.DefaultTTL != nil && s.MaxDuration != nil && s.DefaultTTL.Duration > s.MaxDuration.Duration {
		v.Refuse(field.Invalid(spec.Child("defaultTTL"), s.DefaultTTL.Duration.String(),
			fmt.Sprintf("is longer than maxDuration, %s: shorten it, or raise spec.maxDuration", s.MaxDuration.Duration)))
	}
}

func checkMaxPerReservation(v *webhooks.Verdict, s *brokerv1alpha1.BrokerConfigSpec) {
	path := spec.Child("maxPerReservation")
	for name, q := range s.MaxPerReservation {
		if err := quantity.CheckName(name); err != nil {
			v.Refuse(field.Invalid(path.Key(string(name)), string(name), err.Error()))
			continue
		}
		if _, err := quantity.FromResource(name, q); err != nil {
			v.Refuse(field.Invalid(path.Key(string(name)), q.String(), err.Error()+": name the most that a reservation may ask for, or leave the resource out"))
		}
		if webhooks.LacksUnit(name, q) {
			v.Refuse(field.Invalid(path.Key(string(name)), q.String(), "must be 0 or at least 1Mi: without a unit it is a number of bytes, for example 64Gi"))
		}
	}
}

// checkLists refuses a cluster that is both approved and denied, and a key that is approved for two
// clusters. If such a BrokerConfig exists nevertheless, the broker denies the cluster that is in
// both lists.
func checkLists(v *webhooks.Verdict, c *brokerv1alpha1.BrokerConfig) {
	both := access.PolicyOf(&c.Spec).Contradictions()
	for i, id := range c.Spec.DeniedClusters {
		if slices.Contains(both, id) {
			v.Refuse(field.Invalid(spec.Child("deniedClusters").Index(i), id, "is in spec.approvedClusters too: take it out of one of the lists"))
		}
	}
	owner := map[string]string{}
	for i, a := range c.Spec.ApprovedClusters {
		if a.KeyFingerprint == "" {
			continue
		}
		if other, taken := owner[a.KeyFingerprint]; taken {
			v.Refuse(field.Invalid(spec.Child("approvedClusters").Index(i).Child("keyFingerprint"), a.KeyFingerprint,
				fmt.Sprintf("is approved for cluster %q already: every cluster has its own key, which its agent logs", other)))
			continue
		}
		owner[a.KeyFingerprint] = a.ClusterID
	}
}

func warnOfLists(v *webhooks.Verdict, c *brokerv1alpha1.BrokerConfig, clusters []brokerv1alpha1.ClusterAdvertisement) {
	for i, id := range c.Spec.DeniedClusters {
		if len(clusters) > 0 && !isKnown(id, clusters) {
			v.Warn("%s: no cluster %q has advertised; known are %s", spec.Child("deniedClusters").Index(i), id, clusterNames(clusters))
		}
	}
	for i, d := range c.Spec.Drains {
		if len(clusters) > 0 && !isKnown(d.ClusterID, clusters) {
			v.Warn("%s: no cluster %q has advertised; known are %s", spec.Child("drains").Index(i).Child("clusterID"), d.ClusterID, clusterNames(clusters))
		}
	}
	if c.Spec.Admission == brokerv1alpha1.AdmissionApproved && len(c.Spec.ApprovedClusters) == 0 {
		v.Warn("%s: only approved clusters take part, and spec.approvedClusters is empty: no cluster takes part", spec.Child("admission"))
	}
	warnOfApprovals(v, c, clusters)
}

func warnOfApprovals(v *webhooks.Verdict, c *brokerv1alpha1.BrokerConfig, clusters []brokerv1alpha1.ClusterAdvertisement) {
	for i, a := range c.Spec.ApprovedClusters {
		path := spec.Child("approvedClusters").Index(i)
		waiting := slices.IndexFunc(c.Status.PendingEnrolments, func(p brokerv1alpha1.PendingEnrolment) bool { return p.ClusterID == a.ClusterID })
		switch {
		case waiting >= 0 && a.KeyFingerprint != "" && c.Status.PendingEnrolments[waiting].KeyFingerprint != a.KeyFingerprint:
			v.Warn("%s: cluster %q asked to enrol with another key, %s: it cannot enrol with that key", path.Child("keyFingerprint"), a.ClusterID, c.Status.PendingEnrolments[waiting].KeyFingerprint)
		case waiting < 0 && a.KeyFingerprint == "" && len(clusters) > 0 && !isKnown(a.ClusterID, clusters):
			v.Warn("%s: no cluster %q has advertised or asked to enrol; known are %s", path.Child("clusterID"), a.ClusterID, clusterNames(clusters))
		}
	}
}
