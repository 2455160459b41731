package enrolment

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// bindTries is how often admitApplication tries to record the key in the token. An attempt fails if
// another request changes the token at the same time. A token changes at most twice: at its first
// use and when it is removed.
const bindTries = 3

// admitApplication decides about an application. If the decision requires it, it first records in
// the token which key has used it: if two keys present the same token at the same time, one of them
// is refused.
func (e *Enroller) admitApplication(ctx context.Context, policy access.Policy, r *Request, token string) (Outcome, error) {
	for range bindTries {
		kept, known, err := e.findToken(ctx, token)
		if err != nil {
			return Outcome{}, err
		}
		outcome, err := decideApplication(policy, r, token, known, e.Clock.Now())
		if err != nil || !outcome.Bind {
			return outcome, err
		}
		kept.Data[usedByKey] = r.Fingerprint
		err = e.Client.Update(ctx, kept)
		if err == nil {
			e.announceReturn(ctx, r)
			return outcome, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return Outcome{}, wrapUnavailable("binding token %q to its key: %w", known.ID, err)
		}
	}
	return Outcome{}, wrapUnavailable("token of cluster %q changed %d times while it was being used", r.ClusterID, bindTries)
}

// findToken returns the stored token with the ID in text, and the ConfigMap that stores it. It
// returns nil for both if there is no such token.
func (e *Enroller) findToken(ctx context.Context, text string) (*corev1.ConfigMap, *Token, error) {
	id, ok := tokenID(text)
	if !ok {
		return nil, nil, nil
	}
	kept := &corev1.ConfigMap{}
	err := e.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: tokenPrefix + id}, kept)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, wrapUnavailable("reading token %q: %w", id, err)
	}
	token, err := tokenOf(kept)
	if err != nil {
		// The ConfigMap was edited by hand. The token cannot be used, and sweepTokens deletes it.
		e.Log.Error(err, "cannot read an enrolment token")
		return nil, nil, nil
	}
	return kept, token, nil
}

// announceReturn records a warning if a cluster enrols that the broker already knows: either its
// agent was reinstalled, or its token was stolen.
func (e *Enroller) announceReturn(ctx context.Context, r *Request) {
	known := &brokerv1alpha1.ClusterAdvertisement{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: r.ClusterID}, known); err != nil {
		return // the cluster is unknown, or the API server did not answer
	}
	e.Log.Info("known cluster enrols again", "cluster", r.ClusterID, "key", r.Fingerprint)
	e.Recorder.Eventf(known, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonReEnrolled, "Enrol",
		"cluster %s enrols again with a token, key %s: deny the cluster if its administrator did not do this", r.ClusterID, r.Fingerprint)
}

// wrapUnavailable returns an error for a failure of the API server. The text of format is for the
// broker's log; the caller is only asked to try again.
func wrapUnavailable(format string, args ...any) error {
	e := fault.New(fault.Unavailable, "the broker cannot enrol clusters at the moment: try again").RetryIn(2 * time.Second)
	return fmt.Errorf("%w: %w", e, fmt.Errorf(format, args...))
}
