package identity

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
)

// idle is the longest time between two reads of the Secret, watched or not.
const idle = 10 * time.Minute

// Enroller requests a first certificate.
type Enroller interface {
	Rules(ctx context.Context) (*v1.EnrolmentRules, error)
	Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error)
}

// Renewer requests a certificate with the current one.
type Renewer interface {
	RenewCertificate(ctx context.Context, request *v1.RenewalRequest) (*v1.IssuedCertificate, error)
	Ping(ctx context.Context) (*v1.Pong, error)
}

// Options of a Keeper. Client, Secret and Dir are required.
type Options struct {
	Client kubernetes.Interface
	// Secret that stores the identity.
	Secret types.NamespacedName
	// Dir is where the agent reads its certificate, see pki.Files.
	Dir string
	// ClusterID to enrol as. If empty, the Secret's certificate decides, and without one
	// DefaultClusterID.
	ClusterID, DefaultClusterID string
	// Enroller is nil if the broker's enrolment address is unknown.
	Enroller Enroller
	// Token from `broker enrol`; without one an administrator must approve.
	Token string
	// Clock is the wall clock if nil.
	Clock clock.Clock
	Log   logr.Logger
}

// Keeper enrols the cluster and renews its certificate. Call Acquire first, then run Start as a
// runnable of a manager.
type Keeper struct {
	options Options
	secret  *secret
	clock   clock.Clock
	log     logr.Logger
	// changed receives when the Secret may have changed.
	changed chan struct{}

	// renewer is nil before RenewWith.
	renewer Renewer
	// elected is closed once this replica leads.
	elected <-chan struct{}

	// published is the certificate in the files, nil if unknown.
	published *Certificate
	received  time.Time
	backoff   backoff
	pinged    time.Time
	untrusted bool
	outdated  bool
	// misfit is set after the broker rejected a request as invalid; the next request uses the trust
	// domain that the broker names.
	misfit bool
	// told and complained rate-limit log messages about failures and about the Secret.
	told, complained reminded

	// mu guards the following.
	mu      sync.Mutex
	trouble error
}

// New returns a Keeper; nothing runs before Acquire.
func New(o Options) *Keeper {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Keeper{
		options: o, secret: &secret{client: o.Client, NamespacedName: o.Secret}, clock: o.Clock, log: o.Log,
		changed: make(chan struct{}, 1),
	}
}

// Acquire returns once the files hold a valid certificate. Until then Trouble returns what is
// missing.
func (k *Keeper) Acquire(ctx context.Context) (*Certificate, error) {
	return k.runSteps(ctx, func(c *Certificate) bool { return c != nil })
}

// RenewWith enables renewal on the leading replica, where elected is closed.
func (k *Keeper) RenewWith(renewer Renewer, elected <-chan struct{}) {
	k.renewer, k.elected = renewer, elected
}

// Start renews the certificate, and publishes certificates that other replicas renewed, until
// ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	_, _ = k.runSteps(ctx, func(*Certificate) bool { return false }) // ends only with ctx
	return nil
}

// NeedLeaderElection is false: every replica publishes.
func (*Keeper) NeedLeaderElection() bool { return false }

// runSteps performs steps until enough returns true for the certificate in the files.
func (k *Keeper) runSteps(ctx context.Context, enough func(*Certificate) bool) (*Certificate, error) {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { k.secret.watchChanges(watching, k.noteChange) })
	defer watch.Wait()
	defer stop()
	for {
		elected := k.elected
		if k.isLeading() {
			elected = nil // already known
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

// isLeading reports whether this replica renews.
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

// performStep performs one step. It returns the valid certificate in the files, or nil, and
// when the next step is due.
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
