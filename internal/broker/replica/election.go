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
)

// Timing of the lease. It is shorter than usual because a false alarm is cheap: the journal is
// the fence, and agents reconnect.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

// Options of an Election. Address and Log are optional.
type Options struct {
	// Config and Cache belong to the API server that holds the lease.
	Config *rest.Config
	Cache  cache.Cache
	// Namespace and Name of the Lease.
	Namespace, Name string
	// Address, host:port, is this replica's direct listener for other replicas; empty if it has
	// none.
	Address string
	// Follow runs while this replica does not lead. Its context ends, and Follow has returned,
	// before Lead is called.
	Follow func(ctx context.Context)
	// Lead serves until its context ends, and returns after all work is done.
	Lead func(ctx context.Context) error
	Log  logr.Logger
	// Clock measures the age of the lease. It must be monotonic.
	Clock clock.PassiveClock
}

// Election makes this replica a candidate for leader again and again, until it is stopped. It
// is a runnable of a controller-runtime manager.
type Election struct {
	options  Options
	identity string
	lock     resourcelock.Interface
	// freed receives when the holder releases the lease.
	freed chan struct{}

	// mu guards the following.
	mu sync.Mutex
	// synced is true once the lease has been read, even if it does not exist.
	synced bool
	// leading is true from the call of Lead until it returns.
	leading bool
	// renewed is when the last successful renewal was requested.
	renewed time.Time
	// holder of the lease, as last observed.
	holder string
	// changed is closed and replaced when Leader changes.
	changed chan struct{}
}

// New returns an Election; nothing runs before Start.
func New(o Options) (*Election, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("election: this host's name: %w", err)
	}
	e := &Election{
		options:  o,
		identity: identityOf(host, o.Address),
		freed:    make(chan struct{}, 1),
		changed:  make(chan struct{}),
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, o.Name,
		resourcelock.ResourceLockConfig{Identity: e.identity}, o.Config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	e.lock = &datedLock{Interface: lock, election: e}
	return e, nil
}

// identityOf returns an identity that is unique per process: after a restart, the lease belongs
// to another identity.
func identityOf(host, address string) string {
	return strings.Join([]string{host, string(uuid.NewUUID()), address}, "_")
}

// addressOf returns the address in a holder's identity. An address contains no underscore.
func addressOf(identity string) string {
	return identity[strings.LastIndex(identity, "_")+1:]
}

// isPredecessor reports whether the holder is an earlier process with this replica's address.
func (e *Election) isPredecessor(holder string) bool {
	return holder != e.identity && e.options.Address != "" && addressOf(holder) == e.options.Address
}

// datedLock records when a renewal was requested: other candidates wait from that moment.
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

// Leader identifies the broker that serves agents.
type Leader struct {
	// Here means that this replica leads.
	Here bool
	// Address of another replica's direct listener; empty if the leader is unknown.
	Address string
}

// Leader returns the current leader, and a channel that is closed when the leader changes.
func (e *Election) Leader() (Leader, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.currentLeader(), e.changed
}

// currentLeader needs mu.
func (e *Election) currentLeader() Leader {
	switch {
	case e.leading:
		return Leader{Here: true}
	case e.holder == e.identity, e.isPredecessor(e.holder):
		// This replica is about to lead or no longer leads, or the holder is a process that no
		// longer exists.
		return Leader{}
	default:
		return Leader{Address: addressOf(e.holder)}
	}
}

// applyChange applies a change and wakes those that wait for another leader.
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

// Leads reports whether no other replica can have taken over yet. A process that was paused
// learns from it that its lease may have expired.
func (e *Election) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading && e.options.Clock.Since(e.renewed) < leaseDuration
}

// Ready returns nil while this replica leads or knows the leader.
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

// Start campaigns until ctx ends. A leader finishes its work before it releases the lease, so that
// the next leader need not wait.
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

// releasePredecessor releases the lease of the process that had this address before, so that
// no replica waits for its expiry. If that process still runs, the journal fences it.
func (e *Election) releasePredecessor(ctx context.Context) {
	held, _, err := e.lock.Get(ctx)
	if err != nil || !e.isPredecessor(held.HolderIdentity) {
		return
	}
	former := held.HolderIdentity
	held.HolderIdentity, held.LeaseDurationSeconds = "", 1
	if err := e.lock.Update(ctx, *held); err != nil {
		e.options.Log.Info("cannot release the lease of the previous process; waiting until it expires", "holder", former, "error", err.Error())
		return
	}
	e.options.Log.Info("released the lease of the previous process", "holder", former)
}

// watchLease follows the lease.
func (e *Election) watchLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name}}
	informer, err := e.options.Cache.GetInformer(ctx, lease)
	if err != nil {
		return fmt.Errorf("election: watch leases: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    e.onLease,
		UpdateFunc: func(_, obj any) { e.onLease(obj) },
		DeleteFunc: func(obj any) { e.onLeaseDeleted(obj) },
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

func (e *Election) onLeaseDeleted(obj any) {
	if _, ok := e.ownLease(obj); ok {
		e.setHolder("")
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

// runCandidacy runs one candidacy. It ends with ctx, with the lease, or when another holder releases
// the lease, so that the next candidacy starts immediately.
func (e *Election) runCandidacy(ctx context.Context) error {
	// The lease outlives ctx until everything is done.
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

// startFollowing returns a function that ends it.
func (e *Election) startFollowing(ctx context.Context) (end func()) {
	following, stop := context.WithCancel(ctx)
	var followed sync.WaitGroup
	followed.Go(func() { e.options.Follow(following) })
	return func() { stop(); followed.Wait() }
}

// serveAsLeader serves until the lease is lost or ctx ends.
func (e *Election) serveAsLeader(ctx, leading context.Context) error {
	leading, end := context.WithCancel(leading)
	defer end()
	defer context.AfterFunc(ctx, end)()
	e.applyChange(func() { e.leading = true })
	defer e.applyChange(func() { e.leading = false })
	return e.options.Lead(leading)
}
