package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/election"
)

// Timing of the lease. The times are shorter than usual, because an unnecessary change of leader
// does little harm: the journal ensures that only one replica writes, and agents reconnect.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

// Options configure an Election. Address, Webhooks and Log are optional.
type Options struct {
	// Config and Cache are for access to the API server that stores the Lease.
	Config *rest.Config
	Cache  cache.Cache
	// Namespace and Name are those of the Lease.
	Namespace, Name string
	// Address is the host:port of the listener at which other replicas can reach this one directly;
	// empty if there is none.
	Address string
	// Webhooks is the host:port of this replica's webhooks; empty if it serves none.
	Webhooks string
	// Follow runs while this replica does not lead. When the replica is elected, the context of
	// Follow ends, and Lead is called after Follow has returned.
	Follow func(ctx context.Context)
	// Lead serves agents until its context ends. It returns when all work is done.
	Lead func(ctx context.Context) error
	Log  logr.Logger
	// Clock measures the age of the lease. It must be monotonic, so that it does not jump.
	Clock clock.PassiveClock
}

// Election lets this replica compete for leadership until it is stopped, and again after every lost
// term. It is a runnable of a controller-runtime manager.
type Election struct {
	options  Options
	identity string
	lock     resourcelock.Interface
	// plain is the lock without the protection against releasing another holder's lease.
	plain resourcelock.Interface
	// freed receives a value when the lease has no holder any longer.
	freed chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// synced is true once this replica has read the lease or knows that it does not exist.
	synced bool
	// leading is true from just before the call of Lead until Lead has returned.
	leading bool
	// renewed is when this replica sent the request of its last successful renewal of the lease.
	renewed time.Time
	// holder is the identity that the lease names, as last observed.
	holder string
	// changed is closed, and replaced by a new channel, when the result of Leader changes.
	changed chan struct{}
}

// New returns an Election. It does nothing before Start.
func New(o Options) (*Election, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("election: this host's name: %w", err)
	}
	e := &Election{
		options:  o,
		identity: identityOf(host, o.Webhooks, o.Address),
		freed:    make(chan struct{}, 1),
		changed:  make(chan struct{}),
	}
	e.plain, err = resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, o.Name,
		resourcelock.ResourceLockConfig{Identity: e.identity}, o.Config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	e.lock = &datedLock{Interface: &election.Lock{Interface: e.plain}, election: e}
	return e, nil
}

// identityOf returns the identity with which this process holds the lease. It is unique: after a
// restart, the replica has another identity.
func identityOf(host, webhooks, address string) string {
	return strings.Join([]string{host, string(uuid.NewUUID()), webhooks, address}, "_")
}

// addressOf returns the address that is contained in the identity of a holder. It is the part after
// the last underscore, because an address contains none.
func addressOf(identity string) string {
	return identity[strings.LastIndex(identity, "_")+1:]
}

// webhooksOf returns the address of the webhooks that is contained in the identity of a holder. It
// precedes the address for agents.
func webhooksOf(identity string) string {
	parts := strings.Split(identity, "_")
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

func (e *Election) isPredecessor(holder string) bool {
	return holder != e.identity && e.options.Address != "" && addressOf(holder) == e.options.Address
}

// datedLock records when a renewal of the lease was requested. The time of the request counts, not
// that of the answer, because other candidates may count from the request.
type datedLock struct {
	resourcelock.Interface
	election *Election
}

func (l *datedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.recordRenewal(r, func() error { return l.Interface.Create(ctx, r) })
}

func (l *datedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.recordRenewal(r, func() error { return l.Interface.Update(ctx, r) })
}

func (l *datedLock) recordRenewal(r resourcelock.LeaderElectionRecord, write func() error) error {
	asked := l.election.options.Clock.Now()
	if err := write(); err != nil {
		return err
	}
	if r.HolderIdentity == l.Identity() {
		l.election.mu.Lock()
		l.election.renewed = asked
		l.election.mu.Unlock()
	}
	return nil
}

// Leader says which replica serves agents.
type Leader struct {
	// Here is true if this replica leads.
	Here bool
	// Address is the address of the leader's direct listener if another replica leads; empty if the
	// leader is unknown.
	Address string
	// Webhooks is the address of the leader's webhooks if another replica leads; empty if the
	// leader is unknown or serves none.
	Webhooks string
}

// Leader returns the current leader, and a channel that is closed when the leader changes.
func (e *Election) Leader() (Leader, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.currentLeader(), e.changed
}

// currentLeader returns the result of Leader. The caller must hold mu.
func (e *Election) currentLeader() Leader {
	switch {
	case e.leading:
		return Leader{Here: true}
	case e.holder == e.identity, e.isPredecessor(e.holder):
		// No replica serves agents: this one holds the lease but does not lead yet or no longer
		// leads, or an earlier process of this replica holds it.
		return Leader{}
	default:
		return Leader{Address: addressOf(e.holder), Webhooks: webhooksOf(e.holder)}
	}
}

// applyChange calls change with mu locked. If the leader is another one afterwards, it closes
// changed, which wakes callers that wait for a new leader.
func (e *Election) applyChange(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.currentLeader()
	change()
	if after := e.currentLeader(); after != before {
		e.options.Log.Info("leader changed", "here", after.Here, "address", after.Address)
		close(e.changed)
		e.changed = make(chan struct{})
	}
}

// Leads reports whether this replica leads and no other replica can be leading. It returns false
// when the lease may have expired, for example because the process was suspended.
func (e *Election) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading && e.options.Clock.Since(e.renewed) < leaseDuration
}

// Ready returns nil if this replica leads or knows the leader's address. Otherwise it returns an
// error, for the readiness probe.
func (e *Election) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.synced:
		return errors.New("the lease has not been read yet")
	case e.currentLeader() == Leader{}:
		return errors.New("the leader is not known")
	default:
		return nil
	}
}

// Start competes for leadership until ctx ends. A leader finishes its work and then releases the
// lease, so that the next leader need not wait until it expires.
func (e *Election) Start(ctx context.Context) error {
	if err := e.watchLease(ctx); err != nil {
		return err
	}
	e.releasePredecessor(ctx)
	for ctx.Err() == nil {
		if err := e.runCandidacy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// releasePredecessor releases the lease if an earlier process of this replica holds it, so that no
// replica has to wait until it expires. If that process still runs, it can no longer write once
// another process has opened the journal.
func (e *Election) releasePredecessor(ctx context.Context) {
	held, _, err := e.plain.Get(ctx)
	if err != nil || !e.isPredecessor(held.HolderIdentity) {
		return
	}
	former := held.HolderIdentity
	held.HolderIdentity, held.LeaseDurationSeconds = "", 1
	if err := e.plain.Update(ctx, *held); err != nil {
		e.options.Log.Info("cannot release the lease of the previous process; waiting until it expires", "holder", former, "error", err.Error())
		return
	}
	e.options.Log.Info("released the lease of the previous process", "holder", former)
}

// watchLease starts a watch of the lease, and waits until the lease has been read.
func (e *Election) watchLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name}}
	informer, err := e.options.Cache.GetInformer(ctx, lease)
	if err != nil {
		return fmt.Errorf("election: watch leases: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    e.onLease,
		UpdateFunc: func(_, obj any) { e.onLease(obj) },
		DeleteFunc: func(obj any) {
			if _, ok := e.ownLease(obj); ok {
				e.setHolder("")
			}
		},
	})
	if err != nil {
		return fmt.Errorf("election: watch leases: %w", err)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		e.applyChange(func() { e.synced = true })
	}
	return nil
}

func (e *Election) ownLease(obj any) (*coordinationv1.Lease, bool) {
	if final, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = final.Obj
	}
	lease, ok := obj.(*coordinationv1.Lease)
	return lease, ok && client.ObjectKeyFromObject(lease) == client.ObjectKey{Namespace: e.options.Namespace, Name: e.options.Name}
}

func (e *Election) onLease(obj any) {
	if lease, ok := e.ownLease(obj); ok {
		e.setHolder(ptr.Deref(lease.Spec.HolderIdentity, ""))
	}
}

func (e *Election) setHolder(holder string) {
	e.applyChange(func() { e.holder = holder })
	if holder != "" {
		return
	}
	select {
	case e.freed <- struct{}{}:
	default:
	}
}

// runCandidacy waits until this replica is elected, and then leads. While it waits, it runs
// Follow. It returns when ctx ends, when the lease is lost, or when another holder releases the
// lease; the caller then starts the next candidacy immediately.
func (e *Election) runCandidacy(ctx context.Context) error {
	// The lease must be kept after ctx ends, until the leader has finished its work.
	standing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: e.options.Name, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { elected <- leading },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("election: %w", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(standing)
	}()
	unfollow := e.startFollowing(ctx)
	defer unfollow()
	select {
	case leading := <-elected:
		unfollow()
		err = e.serveAsLeader(ctx, leading)
	case <-e.freed:
	case <-over:
	case <-ctx.Done():
	}
	stop()
	<-over
	return err
}

// startFollowing runs Follow in the background. end stops Follow and waits until it has returned.
func (e *Election) startFollowing(ctx context.Context) (end func()) {
	following, stop := context.WithCancel(ctx)
	var followed sync.WaitGroup
	followed.Go(func() { e.options.Follow(following) })
	return func() { stop(); followed.Wait() }
}

// serveAsLeader calls Lead, whose context ends when the lease is lost or ctx ends.
func (e *Election) serveAsLeader(ctx, leading context.Context) error {
	leading, end := context.WithCancel(leading)
	defer end()
	defer context.AfterFunc(ctx, end)()
	e.applyChange(func() { e.leading = true })
	defer e.applyChange(func() { e.leading = false })
	return e.options.Lead(leading)
}
