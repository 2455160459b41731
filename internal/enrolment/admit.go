package enrolment

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// bindTries bounds how often a token is looked at again that another request
// changed meanwhile. Its first use is one change, its removal another.
const bindTries = 3

// admit decides, and binds the token to the key before anybody hears of it: of two
// keys that come with one token at the same time, one is refused.
func (e *Enroller) admit(ctx context.Context, policy access.Policy, a Application) (Outcome, error) {
	for range bindTries {
		kept, token, err := e.findToken(ctx, a.Token)
		if err != nil {
			return Outcome{}, err
		}
		outcome, err := decide(policy, a, token, e.Clock.Now())
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
			return Outcome{}, unavailable("binding token %q to its key: %w", token.ID, err)
		}
	}
	return Outcome{}, unavailable("token of cluster %q: changed %d times while it was used", a.ClusterID, bindTries)
}

// findToken returns nil where no token has the ID of text.
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
		return nil, nil, unavailable("reading token %q: %w", id, err)
	}
	token, err := tokenOf(kept)
	if err != nil {
		// Somebody edited it. It cannot be used, and the sweep removes it.
		e.Log.Error(err, "An enrolment token cannot be read")
		return nil, nil, nil
	}
	return kept, token, nil
}

// announceReturn tells that a cluster which the broker knows already begins anew: a
// reinstalled agent, or somebody who got hold of a token.
func (e *Enroller) announceReturn(ctx context.Context, a Application) {
	known := &brokerv1alpha1.ClusterAdvertisement{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: a.ClusterID}, known); err != nil {
		return // unknown, and what is not certain is not told
	}
	e.Log.Info("A cluster that is known enrols anew", "cluster", a.ClusterID, "key", a.Fingerprint)
	e.Recorder.Eventf(known, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonReEnrolled, "Enrol",
		"cluster %s enrols anew with a token, key %s: deny it if its administrator did not do this", a.ClusterID, a.Fingerprint)
}

// unavailable is for what the API server did not do: the log has the cause, the
// caller is asked to come again.
func unavailable(format string, args ...any) error {
	e := fault.New(fault.Unavailable, "the broker cannot enrol now: try again")
	e.RetryAfter = 2 * time.Second
	return fmt.Errorf("%w: %w", e, fmt.Errorf(format, args...))
}
