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
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/transport/http"
)

// idle is the longest time between two looks at the Secret, watched or not.
const idle = 10 * time.Minute

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
	// elected is closed once this replica leads.
	elected <-chan struct{}

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
		changed: make(chan struct{}, 1),
	}
}

// Acquire returns once the files hold a certificate that has not expired. Until then
// Trouble says what it waits for.
func (k *Keeper) Acquire(ctx context.Context) (*Certificate, error) {
	return k.keep(ctx, func(c *Certificate) bool { return c != nil })
}

// RenewWith lets Start renew, on the replica that leads: elected is closed there.
func (k *Keeper) RenewWith(renewer Renewer, elected <-chan struct{}) {
	k.renewer, k.elected = renewer, elected
}

// Start renews, and publishes what another replica renewed, until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	_, _ = k.keep(ctx, func(*Certificate) bool { return false }) // ends with ctx alone
	return nil
}

// NeedLeaderElection is false: every replica publishes.
func (*Keeper) NeedLeaderElection() bool { return false }

// keep makes step after step, until enough is said of the certificate that is in the
// files.
func (k *Keeper) keep(ctx context.Context, enough func(*Certificate) bool) (*Certificate, error) {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { k.secret.watch(watching, k.noteChange) })
	defer watch.Wait()
	defer stop()
	for {
		elected := k.elected
		if k.leading() {
			elected = nil // that is no news any more
		}
		use, again := k.pass(ctx)
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

// leading says that this replica is the one that renews.
func (k *Keeper) leading() bool {
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
		Leading: k.leading(), CanEnrol: k.options.Enroller != nil,
		Untrusted: k.untrusted, Outdated: k.outdated,
	}
	if c := state.Certificate; c != nil {
		s.ClusterID = cmp.Or(k.options.ClusterID, c.ClusterID)
	}
	return s
}
