package enrolment

import (
	"context"
	"errors"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	upkeepEvery = time.Minute
	// tokenAfterlife is how long an expired token is kept, so that a cluster that uses it is told
	// that it has expired.
	tokenAfterlife = time.Hour
)

// Start removes expired objects and updates the Facts every upkeepEvery, until ctx ends.
func (e *Enroller) Start(ctx context.Context) error {
	ticker := e.Clock.NewTicker(upkeepEvery)
	defer ticker.Stop()
	for {
		if err := e.runUpkeep(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error(err, "enrolment upkeep failed, retrying")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// NeedLeaderElection returns false, because every replica can enrol clusters.
func (*Enroller) NeedLeaderElection() bool { return false }

func (e *Enroller) runUpkeep(ctx context.Context) error {
	return errors.Join(e.publishFacts(ctx), e.sweepTokens(ctx), e.sweepRequests(ctx), e.sweepPending(ctx))
}

func (e *Enroller) sweepTokens(ctx context.Context) error {
	var kept corev1.ConfigMapList
	if err := e.Client.List(ctx, &kept, client.InNamespace(e.Namespace), client.HasLabels{TokenLabel}); err != nil {
		return err
	}
	var failed error
	for i := range kept.Items {
		token, err := tokenOf(&kept.Items[i])
		if err == nil && e.Clock.Since(token.Expires) < tokenAfterlife {
			continue
		}
		failed = errors.Join(failed, client.IgnoreNotFound(e.Client.Delete(ctx, &kept.Items[i])))
	}
	return failed
}

func (e *Enroller) sweepRequests(ctx context.Context) error {
	var made cmapi.CertificateRequestList
	if err := e.Client.List(ctx, &made, client.InNamespace(e.Namespace), client.HasLabels{requestLabel}); err != nil {
		return err
	}
	var failed error
	for i := range made.Items {
		if e.Clock.Since(made.Items[i].CreationTimestamp.Time) >= requestLifetime {
			failed = errors.Join(failed, e.deleteRequest(ctx, &made.Items[i]))
		}
	}
	return failed
}

func (e *Enroller) sweepPending(ctx context.Context) error {
	policy, err := e.Access.Policy()
	if err != nil {
		return nil // the broker has not read its configuration yet
	}
	_, err = e.changePending(ctx, func(list pendingList) pendingList { return dropStale(list, policy, e.Clock.Now()) })
	return err
}
