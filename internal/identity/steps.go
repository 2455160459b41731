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

// apply makes the plan's step. The next is due at once, unless it says otherwise.
func (k *Keeper) apply(ctx context.Context, plan Plan, s Situation, read *corev1.Secret) (again time.Time, err error) {
	if problem := errors.Join(s.Problems...); problem != nil && k.complained.again(problem.Error(), s.Now) {
		k.log.Info("Part of the identity secret cannot be used and is replaced", "secret", k.secret.String(), "problem", problem.Error())
	}
	again = s.Now
	switch plan.Step {
	case Publish:
		err = k.publish(s.Certificate)
	case Restore:
		err = k.secret.save(ctx, read, State{Certificate: s.Published, Request: s.Request})
	case Prepare:
		err = k.prepare(ctx, s, read)
	case Enrol:
		return k.enrol(ctx, s, read)
	case Renew:
		err = k.renew(ctx, s, read)
	case Stuck:
		err = fmt.Errorf("%s and there is no way to another: run `broker enrol %s` in the broker's cluster and give this agent the --enrolment-url, --enrolment-ca-hash and --enrolment-token that it prints",
			lack(s.Certificate), s.ClusterID)
	case Wait:
		k.recovered()
		again = k.pauseUntil(plan.Until, s.Now)
	}
	return again, err
}

func lack(c *Certificate) string {
	if c == nil {
		return "there is no certificate"
	}
	return fmt.Sprintf("the certificate of cluster %q expired on %s", c.ClusterID, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

func (k *Keeper) publish(c *Certificate) error {
	if err := pki.Replace(k.options.Dir, c.files()); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IdentityPublished)
	k.published = c
	k.log.Info("Certificate is in use", "cluster", c.ClusterID, "serial", c.Leaf.SerialNumber.Text(16), "expires", c.Leaf.NotAfter.UTC())
	return nil
}

func (k *Keeper) prepare(ctx context.Context, s Situation, read *corev1.Secret) error {
	domain, err := k.trustDomain(ctx, s)
	if err != nil {
		return err
	}
	request, err := NewRequest(s.ClusterID, domain)
	if err != nil {
		return err
	}
	if err := k.secret.save(ctx, read, State{Certificate: s.Certificate, Request: request}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IdentityPrepared)
	k.log.Info("Key and certificate signing request are made", "cluster", s.ClusterID, "key", request.Fingerprint)
	return nil
}

// trustDomain is that of the certificate in use as long as the broker takes it.
func (k *Keeper) trustDomain(ctx context.Context, s Situation) (string, error) {
	if c := s.Certificate; c != nil && c.trustDomain() != "" && !k.misfit {
		return c.trustDomain(), nil
	}
	if k.options.Enroller == nil {
		return "", errors.New("the broker's trust domain is not known: give --enrolment-url and --enrolment-ca-hash")
	}
	terms, err := k.options.Enroller.Terms(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the broker for its trust domain: %w", err)
	}
	return terms.TrustDomain, nil
}

func (k *Keeper) enrol(ctx context.Context, s Situation, read *corev1.Secret) (again time.Time, err error) {
	issued, approval, err := k.options.Enroller.Enrol(ctx, &v1.EnrolmentRequest{
		ClusterID: s.ClusterID, Csr: string(s.Request.PEM), Token: k.options.Token,
	})
	if err != nil {
		return s.Now, errors.Join(fmt.Errorf("enrolment of cluster %q with key %s: %w", s.ClusterID, s.Request.Fingerprint, remedied(err, s.ClusterID)),
			k.discard(ctx, s, read, err))
	}
	if approval != nil {
		k.note(fmt.Errorf("cluster %q waits to be approved, with key %s: %s", s.ClusterID, s.Request.Fingerprint, approval.Message))
		return k.backoff.wait(k.clock.Now(), approval.RetryAfter), nil
	}
	return s.Now, k.store(ctx, s, read, issued)
}

func (k *Keeper) renew(ctx context.Context, s Situation, read *corev1.Secret) error {
	issued, err := k.renewer.RenewCertificate(ctx, &v1.RenewalRequest{Csr: string(s.Request.PEM)})
	if err != nil {
		k.untrusted = k.untrusted || distrust(err)
		return errors.Join(fmt.Errorf("renewal of the certificate that expires on %s: %w",
			s.Certificate.Leaf.NotAfter.UTC().Format(time.RFC3339), err), k.discard(ctx, s, read, err))
	}
	return k.store(ctx, s, read, issued)
}

// store keeps what the broker issued, before it is used.
func (k *Keeper) store(ctx context.Context, s Situation, read *corev1.Secret, issued *v1.IssuedCertificate) error {
	failpoint.Hit(failpoint.IdentityAnswered)
	certificate, err := s.Request.accept(issued, k.clock.Now())
	if err != nil {
		return err
	}
	if err := k.secret.save(ctx, read, State{Certificate: certificate}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.IdentityStored)
	k.untrusted, k.outdated, k.misfit = false, false, false
	k.received = k.clock.Now()
	k.backoff = backoff{}
	return nil
}

// discard drops a request that the broker will never take as it is: the next one asks
// for what the broker says it signs.
func (k *Keeper) discard(ctx context.Context, s Situation, read *corev1.Secret, err error) error {
	if fault.ReasonOf(err) != fault.InvalidCSR {
		return nil
	}
	k.misfit = true
	if err := k.secret.save(ctx, read, State{Certificate: s.Certificate}); !overtaken(err) {
		return err
	}
	return nil
}

// remedied adds what to do where the broker's own words cannot know it.
func remedied(err error, clusterID string) error {
	switch fault.ReasonOf(err) {
	case fault.TokenInvalid, fault.TokenExpired, fault.TokenUsed:
		return fmt.Errorf("%w: run `broker enrol %s` in the broker's cluster again and give this agent the new --enrolment-token", err, clusterID)
	}
	return err
}
