package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/transport/http"
)

const (
	// pingInterval is how often the broker is asked which roots it trusts.
	pingInterval = time.Minute
	// reminder is how often a trouble that stays the same is logged.
	reminder = 10 * time.Minute
	// idle is the longest time between two looks at the Secret, watched or not.
	idle = 10 * time.Minute
)

// Enroller asks for a certificate without having one.
type Enroller interface {
	Terms(ctx context.Context) (*v1.EnrolmentTerms, error)
	Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error)
}

// Renewer asks with the certificate in use.
type Renewer interface {
	RenewCertificate(ctx context.Context, request *v1.RenewalRequest) (*v1.IssuedCertificate, error)
	Ping(ctx context.Context) (*v1.Pong, error)
}

// Options of a Keeper. Client, Secret and Dir are required.
type Options struct {
	Client kubernetes.Interface
	// Secret that the identity is kept in.
	Secret types.NamespacedName
	// Dir is where the agent reads its certificate, see pki.Files.
	Dir string
	// ClusterID to enrol as; that of the Secret's certificate if empty, and
	// DefaultClusterID if there is none.
	ClusterID, DefaultClusterID string
	// Enroller is nil where the broker's enrolment listener is not known.
	Enroller Enroller
	// Token from `broker enrol`; without one an administrator has to approve.
	Token string
	// Clock is the wall clock if nil.
	Clock clock.Clock
	Log   logr.Logger
}

// Keeper enrols the cluster, and keeps its certificate from expiring. Acquire comes
// first, then Start as a runnable of a manager.
type Keeper struct {
	options Options
	secret  *secret
	clock   clock.Clock
	log     logr.Logger
	// changed has an element when the Secret may have changed.
	changed chan struct{}

	// renewer is nil while there is no certificate to renew with.
	renewer Renewer
	leading func() bool

	// published is what the files hold, nil if that is not known.
	published *Certificate
	received  time.Time
	backoff   backoff
	pinged    time.Time
	untrusted bool
	outdated  bool
	// misfit is set when the broker took no request made for the trust domain of the
	// certificate in use.
	misfit bool
	// told and complained are what the log says of troubles and of the Secret.
	told, complained reminded

	// mu guards the following.
	mu      sync.Mutex
	trouble error
}

// New makes a Keeper; nothing runs before Acquire.
func New(o Options) *Keeper {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Keeper{
		options: o, secret: &secret{client: o.Client, NamespacedName: o.Secret}, clock: o.Clock, log: o.Log,
		changed: make(chan struct{}, 1), leading: func() bool { return false },
	}
}

// Acquire returns once the files hold a certificate that has not expired. Until then
// Trouble says what it waits for.
func (k *Keeper) Acquire(ctx context.Context) (*Certificate, error) {
	return k.keep(ctx, func(c *Certificate) bool { return c != nil })
}

// RenewWith lets Start renew, on the replica that leads.
func (k *Keeper) RenewWith(renewer Renewer, leading func() bool) {
	k.renewer, k.leading = renewer, leading
}

// Start renews, and publishes what another replica renewed, until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	_, _ = k.keep(ctx, func(*Certificate) bool { return false }) // ends with ctx alone
	return nil
}

// NeedLeaderElection is false: every replica publishes.
func (*Keeper) NeedLeaderElection() bool { return false }

// Trouble says why there is no certificate, or why it is not renewed; nil if all is
// well.
func (k *Keeper) Trouble() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trouble
}

// keep makes step after step, until enough is said of the certificate that is in the
// files.
func (k *Keeper) keep(ctx context.Context, enough func(*Certificate) bool) (*Certificate, error) {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { k.secret.watch(watching, k.noteChange) })
	defer watch.Wait()
	defer stop()
	for {
		use, again := k.pass(ctx)
		if enough(use) {
			return use, nil
		}
		timer := k.clock.NewTimer(max(0, min(again.Sub(k.clock.Now()), idle)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-k.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (k *Keeper) noteChange() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// pass makes one step. It returns the certificate in the files, nil if there is none
// that is valid, and when the next step is due.
func (k *Keeper) pass(ctx context.Context) (use *Certificate, again time.Time) {
	state, read, err := k.secret.load(ctx)
	if err != nil {
		k.note(err)
		return nil, k.backoff.fail(k.clock.Now(), err)
	}
	k.ping(ctx, state.Certificate)
	situation := k.situate(state)
	if c := state.Certificate; c != nil && c.same(k.published) && !c.expired(situation.Now) {
		use = c
	}
	plan := Decide(situation)
	if plan.asks() && situation.Now.Before(k.backoff.until) {
		return use, k.backoff.until
	}
	again, err = k.apply(ctx, plan, situation, read)
	switch {
	case overtaken(err):
		again = situation.Now
	case err != nil:
		again = k.backoff.fail(k.clock.Now(), err)
		k.note(err)
	}
	return use, again
}

func (k *Keeper) situate(state State) Situation {
	s := Situation{
		State: state, Now: k.clock.Now(), ClusterID: cmp.Or(k.options.ClusterID, k.options.DefaultClusterID),
		Published: k.published, Received: k.received,
		Leading: k.renewer != nil && k.leading(), CanEnrol: k.options.Enroller != nil,
		Untrusted: k.untrusted, Outdated: k.outdated,
	}
	if c := state.Certificate; c != nil {
		s.ClusterID = cmp.Or(k.options.ClusterID, c.ClusterID)
	}
	return s
}

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

// pauseUntil leaves room for the next ping.
func (k *Keeper) pauseUntil(until, now time.Time) time.Time {
	if k.renewer == nil || !k.leading() {
		return until
	}
	if next := k.pinged.Add(pingInterval); next.Before(until) && next.After(now) {
		return next
	}
	return until
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

// ping learns which roots the broker trusts, and whether it takes the certificate.
func (k *Keeper) ping(ctx context.Context, c *Certificate) {
	now := k.clock.Now()
	if c == nil || k.renewer == nil || !k.leading() || now.Before(k.pinged.Add(pingInterval)) {
		return
	}
	k.pinged = now
	pong, err := k.renewer.Ping(ctx)
	if err != nil {
		// A broker that is away says nothing about certificates.
		k.untrusted = distrust(err)
		return
	}
	k.untrusted = false
	k.outdated = pong.TrustDigest != "" && pong.TrustDigest != c.trustDigest
}

// distrust says that the certificate was refused, by TLS or by the broker.
func distrust(err error) bool {
	return errors.Is(err, transport.ErrUntrusted) || fault.ReasonOf(err) == fault.Forbidden
}

// remedied adds what to do where the broker's own words cannot know it.
func remedied(err error, clusterID string) error {
	switch fault.ReasonOf(err) {
	case fault.TokenInvalid, fault.TokenExpired, fault.TokenUsed:
		return fmt.Errorf("%w: run `broker enrol %s` in the broker's cluster again and give this agent the new --enrolment-token", err, clusterID)
	}
	return err
}

// recovered forgets troubles.
func (k *Keeper) recovered() {
	k.backoff = backoff{}
	k.told = reminded{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trouble = nil
}

// note shows a trouble, and logs it when it is new and now and then.
func (k *Keeper) note(err error) {
	k.mu.Lock()
	k.trouble = err
	k.mu.Unlock()
	if k.told.again(err.Error(), k.clock.Now()) {
		k.log.Info("Not enrolled, or not renewed, yet", "cause", err.Error())
	}
}
