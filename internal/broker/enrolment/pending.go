package enrolment

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
)

const (
	// maxPending is the maximum length of the list of waiting clusters, because callers that are
	// not authenticated can extend it. The schema of BrokerConfig has the same limit.
	maxPending = 32
	// pendingLifetime is how long an entry stays in the list after the cluster's last request.
	pendingLifetime = time.Hour
	// askedEvery is how often LastAsked of an entry is updated at most, so that not every
	// repeated request causes a write.
	askedEvery = 10 * time.Minute
)

type pendingList = []brokerv1alpha1.PendingEnrolment

// addPending returns the list with the cluster that has just asked. There is one entry for each
// cluster ID and key, so that a caller with another key cannot replace a cluster's entry. isNew
// is true if the entry was not in the list before. room is false if the list is full and the
// cluster was not added.
func addPending(list pendingList, clusterID, fingerprint string, now time.Time) (after pendingList, isNew, room bool) {
	after = slices.Clone(list)
	same := func(p brokerv1alpha1.PendingEnrolment) bool {
		return p.ClusterID == clusterID && p.KeyFingerprint == fingerprint
	}
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	if i := slices.IndexFunc(after, same); i >= 0 {
		if now.Sub(after[i].LastAsked.Time) >= askedEvery {
			after[i].LastAsked = at
		}
		return after, false, true
	}
	if len(after) >= maxPending {
		return after, false, false
	}
	return append(after, brokerv1alpha1.PendingEnrolment{
		ClusterID: clusterID, KeyFingerprint: fingerprint, Since: at, LastAsked: at,
	}), true, true
}

func dropStale(list pendingList, policy access.Policy, now time.Time) pendingList {
	return slices.DeleteFunc(slices.Clone(list), func(p brokerv1alpha1.PendingEnrolment) bool {
		return now.Sub(p.LastAsked.Time) >= pendingLifetime || policy.Denied(p.ClusterID)
	})
}

// dropPending returns the list without the entry of a cluster that has enrolled with this key.
func dropPending(list pendingList, clusterID, fingerprint string) pendingList {
	return slices.DeleteFunc(slices.Clone(list), func(p brokerv1alpha1.PendingEnrolment) bool {
		return p.ClusterID == clusterID && p.KeyFingerprint == fingerprint
	})
}
