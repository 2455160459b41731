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

// bindTries bounds retries when another request changes the token concurrently. A token changes
// at most twice: at its first use and at its removal.
const bindTries = 3

// admitApplication decides, and binds the token to the key before it answers: if two keys
// present one token at the same time, one is refused.
func (e *Enroller) admitApplication(ctx context.Context, policy access.Policy, a Application) (Outcome, error) {
	for range bindTries {
		kept, token, err := e.findToken(ctx, a.Token)
		if err != nil {
			return Outcome{}, err
		}
		outcome, err := decideApplication(policy, a, token, e.Clock.Now())
		if err != nil || !outcome.Bind {
			return outcome, err
		}
		kept.Data[usedByKey] = a.Fingerprint
		err = e.Client.Update(ctx, kept)
		if err == nil {
			e.announceReturn(ctx, a)
			return outcome, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return Outcome{}, wrapUnavailable("binding token %q to its key: %w", token.ID, err)
		}
	}
	return Outcome{}, wrapUnavailable("token of cluster %q changed %d times while it was being used", a.ClusterID, bindTries)
}

// findToken returns nil if no token has the ID of text.
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
		// Someone edited it. It is unusable, and the sweep removes it.
		e.Log.Error(err, "cannot read an enrolment token")
		return nil, nil, nil
	}
	return kept, token, nil
}

// announceReturn warns that a known cluster enrols again: its agent was reinstalled, or someone
// stole a token.
func (e *Enroller) announceReturn(ctx context.Context, a Application) {
	known := &brokerv1alpha1.ClusterAdvertisement{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: a.ClusterID}, known); err != nil {
		return // unknown cluster, or the read failed: do not warn without certainty
	}
	e.Log.Info("known cluster enrols again", "cluster", a.ClusterID, "key", a.Fingerprint)
	e.Recorder.Eventf(known, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonReEnrolled, "Enrol",
		"cluster %s enrols again with a token, key %s: deny the cluster if its administrator did not do this", a.ClusterID, a.Fingerprint)
}

// wrapUnavailable wraps a failure of the API server: the cause goes to the log, the caller is asked
// to retry.
func wrapUnavailable(format string, args ...any) error {
	e := fault.New(fault.Unavailable, "the broker cannot enrol clusters at the moment: try again")
	e.RetryAfter = 2 * time.Second
	return fmt.Errorf("%w: %w", e, fmt.Errorf(format, args...))
}
