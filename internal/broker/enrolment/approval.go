package enrolment

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// fullRetry is how long a cluster must wait before it asks again, if the list of waiting
// clusters is full.
const fullRetry = 5 * time.Minute

// recordPending adds the cluster to the list of waiting clusters in the BrokerConfig's status,
// where an administrator can see and approve it. It returns the answer to the cluster.
func (e *Enroller) recordPending(ctx context.Context, policy access.Policy, r *Request, why string) (*v1.EnrolmentPending, error) {
	now := e.Clock.Now()
	isNew, room := false, true
	config, err := e.changePending(ctx, func(list pendingList) pendingList {
		list, isNew, room = addPending(dropStale(list, policy, now), r.ClusterID, r.Fingerprint, now)
		return list
	})
	switch {
	case err != nil:
		return nil, wrapUnavailable("recording that cluster %q waits for approval: %w", r.ClusterID, err)
	case !room:
		return nil, fault.New(fault.TooManyRequests, "%d clusters already wait for approval: enrol with a token, created by broker enrol %s", maxPending, r.ClusterID).RetryIn(fullRetry)
	case config == nil:
		e.Log.Info("cluster waits for approval, but there is no BrokerConfig to approve it in", "cluster", r.ClusterID, "key", r.Fingerprint)
	case isNew:
		e.Log.Info("cluster waits for approval", "cluster", r.ClusterID, "key", r.Fingerprint, "why", why)
		e.Recorder.Eventf(config, nil, corev1.EventTypeNormal, brokerv1alpha1.ReasonEnrolmentPending, "Enrol",
			"cluster %s with key %s wants to enrol: %s", r.ClusterID, r.Fingerprint, why)
	}
	return &v1.EnrolmentPending{
		ClusterID: r.ClusterID, KeyFingerprint: r.Fingerprint,
		Message: "waiting for the broker's administrator: " + why,
	}, nil
}

// removePending removes a cluster that has enrolled from the list of waiting clusters. If that
// fails, the entry expires after pendingLifetime.
func (e *Enroller) removePending(ctx context.Context, r *Request) {
	_, err := e.changePending(ctx, func(list pendingList) pendingList { return dropPending(list, r.ClusterID, r.Fingerprint) })
	if err != nil {
		e.Log.Error(err, "enrolled cluster is still listed as waiting", "cluster", r.ClusterID)
	}
}

// changePending applies change to the list of waiting clusters, and writes the list if it is
// different. It returns the BrokerConfig, nil if there is none.
func (e *Enroller) changePending(ctx context.Context, change func(pendingList) pendingList) (*brokerv1alpha1.BrokerConfig, error) {
	config := &brokerv1alpha1.BrokerConfig{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := e.Client.Get(ctx, client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config); err != nil {
			return err
		}
		before := config.DeepCopy()
		config.Status.PendingEnrolments = change(config.Status.PendingEnrolments)
		if equality.Semantic.DeepEqual(before.Status.PendingEnrolments, config.Status.PendingEnrolments) {
			return nil
		}
		return e.Client.Status().Patch(ctx, config, patch.IfUnchanged(before))
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return config, err
}
