package identity

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
)

// idle is the longest time between two reads of the Secret, in case its watch fails.
const idle = 10 * time.Minute

// Enroller requests the first certificate of a cluster.
type Enroller interface {
	Rules(ctx context.Context) (*v1.EnrolmentRules, error)
	Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error)
}

// Renewer requests a new certificate, authenticated with the current one.
type Renewer interface {
	RenewCertificate(ctx context.Context, request *v1.RenewalRequest) (*v1.IssuedCertificate, error)
	Ping(ctx context.Context) (*v1.Pong, error)
}

// Options of a Keeper. Client, Secret, Dir, Clock and Log are required.
type Options struct {
	Client kubernetes.Interface
	Secret types.NamespacedName
	// Dir is the directory from which the agent reads its certificate, see pki.Files.
	Dir string
	// ClusterID is the ID with which to enrol. If it is empty, the ID in the Secret's certificate is
	// used, or DefaultClusterID if there is no certificate.
	ClusterID, DefaultClusterID string
	// Enroller requests the first certificate. It is nil if the broker's enrolment address is unknown.
	Enroller Enroller
	// Token was printed by `broker enrol`. If it is empty, an administrator must approve the enrolment.
	Token string
	Clock clock.Clock
	Log   logr.Logger
}

// Keeper enrols the cluster and renews its certificate. Call Acquire first, then let a manager call
// Start.
type Keeper struct {
	options Options
	secret  *secret
	clock   clock.Clock
	log     logr.Logger
	// changed receives a value when the Secret may have changed.
	changed chan struct{}

	// renewer renews the certificate; nil until RenewWith is called.
	renewer Renewer
	// elected is closed once this replica is the leader.
	elected <-chan struct{}

	// published is the certificate in the files; nil until this process has written the files.
	published *Certificate
	received  time.Time
	backoff   backoff
	pinged    time.Time
	untrusted bool
	outdated  bool
	// misfit is true after the broker rejected a request as invalid. The agent then asks the broker
	// for the trust domain of the next request.
	misfit bool
	// told limits how often failures are logged. complained limits how often unusable content of the
	// Secret is logged.
	told, complained reminded

	// mu protects trouble.
	mu      sync.Mutex
	trouble error
}

// New returns a Keeper. It does nothing before Acquire.
func New(o Options) *Keeper {
	return &Keeper{
		options: o, secret: &secret{client: o.Client, NamespacedName: o.Secret}, clock: o.Clock, log: o.Log,
		changed: make(chan struct{}, 1),
	}
}

// Acquire returns as soon as the files contain a valid certificate, or with an error when ctx ends.
// While it waits, Trouble returns the reason.
func (k *Keeper) Acquire(ctx context.Context) (*Certificate, error) {
	return k.runSteps(ctx, func(c *Certificate) bool { return c != nil })
}

// RenewWith enables renewal. Only the leader renews: elected must be closed once this replica is
// the leader.
func (k *Keeper) RenewWith(renewer Renewer, elected <-chan struct{}) {
	k.renewer, k.elected = renewer, elected
}

// Start keeps the certificate in the files up to date until ctx ends. The leader renews it; the
// other replicas write what the leader has stored in the Secret.
func (k *Keeper) Start(ctx context.Context) error {
	_, _ = k.runSteps(ctx, func(*Certificate) bool { return false }) // returns only when ctx ends
	return nil
}

// NeedLeaderElection returns false: every replica must write the certificate to its files.
func (*Keeper) NeedLeaderElection() bool { return false }

// runSteps performs steps until enough returns true or ctx ends. It calls enough with the valid
// certificate in the files, or nil if there is none.
func (k *Keeper) runSteps(ctx context.Context, enough func(*Certificate) bool) (*Certificate, error) {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { k.secret.watchChanges(watching, k.noteChange) })
	defer watch.Wait()
	defer stop()
	for {
		elected := k.elected
		if k.isLeading() {
			elected = nil // from now on this replica leads, so this channel must not wake the loop again
		}
		use, again := k.performStep(ctx)
		if enough(use) {
			return use, nil
		}
		timer := k.clock.NewTimer(max(0, min(again.Sub(k.clock.Now()), idle)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-elected:
		case <-k.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (k *Keeper) isLeading() bool {
	select {
	case <-k.elected:
		return k.renewer != nil
	default:
		return false
	}
}

func (k *Keeper) noteChange() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// performStep performs the next step. It returns the certificate that was in the files before the
// step, or nil if there was no valid one or the Secret cannot be read, and the time at which the
// following step is due.
func (k *Keeper) performStep(ctx context.Context) (use *Certificate, again time.Time) {
	state, read, err := k.secret.loadState(ctx)
	if err != nil {
		k.reportTrouble(err)
		return nil, k.backoff.nextAfterFailure(k.clock.Now(), err)
	}
	k.pingBroker(ctx, state.Certificate)
	situation := k.currentSituation(state)
	if c := state.Certificate; c != nil && c.sameAs(k.published) && !c.hasExpired(situation.Now) {
		use = c
	}
	plan := Decide(situation)
	if plan.needsBroker() && situation.Now.Before(k.backoff.until) {
		return use, k.backoff.until
	}
	again, err = k.applyPlan(ctx, plan, situation, read)
	switch {
	case isOvertaken(err):
		again = situation.Now
	case err != nil:
		again = k.backoff.nextAfterFailure(k.clock.Now(), err)
		k.reportTrouble(err)
	}
	return use, again
}

func (k *Keeper) currentSituation(state State) Situation {
	s := Situation{
		State: state, Now: k.clock.Now(), ClusterID: cmp.Or(k.options.ClusterID, k.options.DefaultClusterID),
		Published: k.published, Received: k.received,
		Leading: k.isLeading(), CanEnrol: k.options.Enroller != nil,
		Untrusted: k.untrusted, Outdated: k.outdated,
	}
	if c := state.Certificate; c != nil {
		s.ClusterID = cmp.Or(k.options.ClusterID, c.ClusterID)
	}
	return s
}

// Account is an Enroller for a cluster that authenticates to the broker with a ServiceAccount of
// the broker's cluster instead of a certificate. It requests the first certificate with the call
// that otherwise renews one.
type Account struct{ Broker Renewer }

// Rules implements Enroller.
func (a Account) Rules(ctx context.Context) (*v1.EnrolmentRules, error) {
	pong, err := a.Broker.Ping(ctx)
	if err != nil {
		return nil, err
	}
	if pong.TrustDomain == "" {
		return nil, errors.New("this broker issues no certificates: install a certificate by hand, or set --enrolment-url")
	}
	return &v1.EnrolmentRules{TrustDomain: pong.TrustDomain}, nil
}

// Enrol implements Enroller. No approval is needed, because the ServiceAccount proves which cluster
// this is.
func (a Account) Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error) {
	issued, err := a.Broker.RenewCertificate(ctx, &v1.RenewalRequest{Csr: request.Csr})
	return issued, nil, err
}
