package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// applyPlan performs the plan's step. It returns the time at which the next step is due: now,
// except after Wait and while an enrolment awaits approval.
func (k *Keeper) applyPlan(ctx context.Context, plan Plan, s Situation, read *corev1.Secret) (again time.Time, err error) {
	if problem := errors.Join(s.Problems...); problem != nil && k.complained.isDue(problem.Error(), s.Now) {
		k.log.Info("replacing unusable content of the identity secret", "secret", k.secret.String(), "problem", problem.Error())
	}
	again = s.Now
	switch plan.Step {
	case Publish:
		err = k.publishCertificate(s.Certificate)
	case Restore:
		err = k.secret.saveState(ctx, read, State{Certificate: s.Published, Request: s.Request})
	case Prepare:
		err = k.prepareRequest(ctx, s, read)
	case Enrol:
		return k.requestEnrolment(ctx, s, read)
	case Renew:
		err = k.requestRenewal(ctx, s, read)
	case Stuck:
		err = fmt.Errorf("%s and cannot be replaced automatically: run `broker enrol %s` in the broker's cluster and give this agent the --enrolment-url, --enrolment-ca-hash and --enrolment-token that it prints",
			describeLack(s.Certificate), s.ClusterID)
	case Wait:
		k.clearTrouble()
		again = k.pauseUntil(plan.Until, s.Now)
	}
	return again, err
}

func describeLack(c *Certificate) string {
	if c == nil {
		return "there is no certificate"
	}
	return fmt.Sprintf("the certificate of cluster %q expired on %s", c.ClusterID, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

func (k *Keeper) publishCertificate(c *Certificate) error {
	if err := pki.Replace(k.options.Dir, c.filesByName()); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IdentityPublished)
	k.published = c
	k.log.Info("certificate in use", "cluster", c.ClusterID, "serial", c.Leaf.SerialNumber.Text(16), "expires", c.Leaf.NotAfter.UTC())
	return nil
}

func (k *Keeper) prepareRequest(ctx context.Context, s Situation, read *corev1.Secret) error {
	domain, err := k.trustDomain(ctx, s)
	if err != nil {
		return err
	}
	request, err := NewRequest(s.ClusterID, domain)
	if err != nil {
		return err
	}
	if err := k.secret.saveState(ctx, read, State{Certificate: s.Certificate, Request: request}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IdentityPrepared)
	k.log.Info("created key and certificate signing request", "cluster", s.ClusterID, "key", request.Fingerprint)
	return nil
}

// trustDomain returns that of the current certificate. Without one, or after the broker has rejected a request, it
// asks the broker.
func (k *Keeper) trustDomain(ctx context.Context, s Situation) (string, error) {
	if c := s.Certificate; c != nil && c.trustDomain() != "" && !k.misfit {
		return c.trustDomain(), nil
	}
	if k.options.Enroller == nil {
		return "", errors.New("the broker's trust domain is unknown: set --enrolment-url and --enrolment-ca-hash")
	}
	rules, err := k.options.Enroller.Rules(ctx)
	if err != nil {
		return "", fmt.Errorf("asking the broker for its trust domain: %w", err)
	}
	return rules.TrustDomain, nil
}

func (k *Keeper) requestEnrolment(ctx context.Context, s Situation, read *corev1.Secret) (again time.Time, err error) {
	issued, approval, err := k.options.Enroller.Enrol(ctx, &v1.EnrolmentRequest{
		ClusterID: s.ClusterID, Csr: string(s.Request.PEM), Token: k.options.Token,
	})
	if err != nil {
		return s.Now, errors.Join(fmt.Errorf("enrolment of cluster %q with key %s: %w", s.ClusterID, s.Request.Fingerprint, addRemedy(err, s.ClusterID)),
			k.discardInvalidRequest(ctx, s, read, err))
	}
	if approval != nil {
		k.reportTrouble(fmt.Errorf("cluster %q with key %s waits for approval: %s", s.ClusterID, s.Request.Fingerprint, approval.Message))
		return k.backoff.delayNext(k.clock.Now(), approval.RetryAfter), nil
	}
	return s.Now, k.storeIssued(ctx, s, read, issued)
}

// storeIssued checks an issued certificate and stores it. The next step writes it to the files.
func (k *Keeper) storeIssued(ctx context.Context, s Situation, read *corev1.Secret, issued *v1.IssuedCertificate) error {
	failpoint.Hit(failpoint.IdentityAnswered)
	certificate, err := s.Request.acceptAnswer(issued, k.clock.Now())
	if err != nil {
		return err
	}
	if err := k.secret.saveState(ctx, read, State{Certificate: certificate}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IdentityStored)
	k.untrusted, k.outdated, k.misfit = false, false, false
	k.received = k.clock.Now()
	k.backoff = backoff{}
	return nil
}

// discardInvalidRequest removes the request from the Secret if err says that the broker rejected
// it as invalid. The next request uses the trust domain that the broker names.
func (k *Keeper) discardInvalidRequest(ctx context.Context, s Situation, read *corev1.Secret, err error) error {
	if fault.ReasonOf(err) != fault.InvalidCSR {
		return nil
	}
	k.misfit = true
	if err := k.secret.saveState(ctx, read, State{Certificate: s.Certificate}); !isOvertaken(err) {
		return err
	}
	return nil
}

// addRemedy names what the broker cannot, because it does not know the agent's flags.
func addRemedy(err error, clusterID string) error {
	switch fault.ReasonOf(err) {
	case fault.TokenInvalid, fault.TokenExpired, fault.TokenUsed:
		return fmt.Errorf("%w: run `broker enrol %s` in the broker's cluster again and give this agent the new --enrolment-token", err, clusterID)
	}
	return err
}
