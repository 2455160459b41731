package enrolment

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/access"
)

const (
	// maxPending bounds what strangers can write. It is that of the API.
	maxPending = 32
	// pendingLifetime is how long one that does not ask again is shown.
	pendingLifetime = time.Hour
	// askedEvery is how exactly it is kept when one asked, so that asking again is
	// not a write every time.
	askedEvery = 10 * time.Minute
)

type pendingList = []brokerv1alpha1.PendingEnrolment

// noted is the list after a cluster asked. There may be one line for each key that
// asks under a name: nobody takes another's place. room is false where the list is
// full, and the cluster is then not in it.
func noted(list pendingList, clusterID, fingerprint string, now time.Time) (after pendingList, isNew, room bool) {
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

// current is what of the list still waits: not those that stopped asking or were
// denied.
func current(list pendingList, policy access.Policy, now time.Time) pendingList {
	return slices.DeleteFunc(slices.Clone(list), func(p brokerv1alpha1.PendingEnrolment) bool {
		return now.Sub(p.LastAsked.Time) >= pendingLifetime || policy.Denied(p.ClusterID)
	})
}

// without is the list after a cluster was enrolled with a key.
func without(list pendingList, clusterID, fingerprint string) pendingList {
	return slices.DeleteFunc(slices.Clone(list), func(p brokerv1alpha1.PendingEnrolment) bool {
		return p.ClusterID == clusterID && p.KeyFingerprint == fingerprint
	})
}
