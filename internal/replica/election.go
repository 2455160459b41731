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

// Timing of the lease. It is shorter than usual because a false alarm is cheap: the
// journal is the fence, and agents connect again.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

// Options of an Election. All but Address and Log are required.
type Options struct {
	// Config and Cache are the API server that holds the lease.
	Config *rest.Config
	Cache  cache.Cache
	// Namespace and Name of the Lease.
	Namespace, Name string
	// Address, host:port, is where other replicas reach this one's direct listener;
	// empty if it has none.
	Address string
	// Follow is called while this replica does not lead, until its context ends, and has
	// returned before Lead is called.
	Follow func(ctx context.Context)
	// Lead serves until its context ends, and returns once everything is settled.
	Lead func(ctx context.Context) error
	Log  logr.Logger
	// Clock measures the age of the lease. It must be monotonic.
	Clock clock.PassiveClock
}

// Election has this replica stand for leader, again and again, until it is stopped.
// It is a runnable of a controller-runtime manager.
type Election struct {
	options  Options
	identity string
	lock     resourcelock.Interface
	// freed says that the lease was given up by its holder.
	freed chan struct{}

	// mu guards the following.
	mu sync.Mutex
	// synced is true once the lease, or that there is none, is known.
	synced bool
	// leading is true from when Lead is called until it returns.
	leading bool
	// renewed is when the last renewal that succeeded was asked for.
	renewed time.Time
	// holder of the lease, as it was last seen.
	holder string
	// changed is closed and replaced when Leader changes.
	changed chan struct{}
}

// New makes an Election; nothing runs before Start.
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

// identityOf is unique to the process: after a restart the lease is another one's.
func identityOf(host, address string) string {
	return strings.Join([]string{host, string(uuid.NewUUID()), address}, "_")
}

// addressOf is the address in a holder's identity; an address has no underscore.
func addressOf(identity string) string {
	return identity[strings.LastIndex(identity, "_")+1:]
}

// precedes says whether a holder is a process that had this replica's address before it.
func (e *Election) precedes(holder string) bool {
	return holder != e.identity && e.options.Address != "" && addressOf(holder) == e.options.Address
}

// datedLock notes when a renewal was asked for: from then on others wait.
type datedLock struct {
	resourcelock.Interface
	election *Election
}

func (l *datedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.dated(r, func() error { return l.Interface.Create(ctx, r) })
}

func (l *datedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.dated(r, func() error { return l.Interface.Update(ctx, r) })
}

func (l *datedLock) dated(r resourcelock.LeaderElectionRecord, write func() error) error {
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

// Leader is who serves agents.
type Leader struct {
	// Here means that it is this replica.
	Here bool
	// Address of another replica's direct listener; empty if nobody is known.
	Address string
}

// Leader returns who leads, and a channel that is closed when that has changed.
func (e *Election) Leader() (Leader, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader(), e.changed
}

// leader needs mu.
func (e *Election) leader() Leader {
	switch {
	case e.leading:
		return Leader{Here: true}
	case e.holder == e.identity, e.precedes(e.holder):
		// It is about to lead, or does not any more, or is no more.
		return Leader{}
	default:
		return Leader{Address: addressOf(e.holder)}
	}
}

// update changes what is known and wakes those who wait for another leader.
func (e *Election) update(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.leader()
	change()
	if after := e.leader(); after != before {
		e.options.Log.Info("leader changed", "here", after.Here, "address", after.Address)
		close(e.changed)
		e.changed = make(chan struct{})
	}
}

// Leads says whether no other replica can have taken over by now. A process that was
// stopped and goes on learns from it that it was away.
func (e *Election) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading && e.options.Clock.Since(e.renewed) < leaseDuration
}

// Ready is nil while this replica leads or knows who does.
func (e *Election) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.synced:
		return errors.New("the lease was not read yet")
	case e.leader() == Leader{}:
		return errors.New("no replica is known to lead")
	default:
		return nil
	}
}

// Start stands for leader until ctx ends. What it leads is then brought to its end
// before the lease is given up, so that the next leader need not wait.
func (e *Election) Start(ctx context.Context) error {
	if err := e.watch(ctx); err != nil {
		return err
	}
	e.succeed(ctx)
	for ctx.Err() == nil {
		if err := e.stand(ctx); err != nil {
			return err
		}
	}
	return nil
}

// succeed gives up the lease of the process before this one. It is no more, so nobody need
// wait until its time is over. Were it there all the same, the journal would keep it from
// writing.
func (e *Election) succeed(ctx context.Context) {
	held, _, err := e.lock.Get(ctx)
	if err != nil || !e.precedes(held.HolderIdentity) {
		return
	}
	former := held.HolderIdentity
	held.HolderIdentity, held.LeaseDurationSeconds = "", 1
	if err := e.lock.Update(ctx, *held); err != nil {
		e.options.Log.Info("the lease of the process before this one was not given up: waiting for its end", "holder", former, "error", err.Error())
		return
	}
	e.options.Log.Info("succeeding the process before this one", "holder", former)
}

// watch follows the lease.
func (e *Election) watch(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name}}
	informer, err := e.options.Cache.GetInformer(ctx, lease)
	if err != nil {
		return fmt.Errorf("election: watch leases: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    e.seen,
		UpdateFunc: func(_, obj any) { e.seen(obj) },
		DeleteFunc: func(obj any) { e.gone(obj) },
	})
	if err != nil {
		return fmt.Errorf("election: watch leases: %w", err)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		e.update(func() { e.synced = true })
	}
	return nil
}

func (e *Election) ours(obj any) (*coordinationv1.Lease, bool) {
	if final, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = final.Obj
	}
	lease, ok := obj.(*coordinationv1.Lease)
	return lease, ok && client.ObjectKeyFromObject(lease) == client.ObjectKey{Namespace: e.options.Namespace, Name: e.options.Name}
}

func (e *Election) seen(obj any) {
	if lease, ok := e.ours(obj); ok {
		e.held(ptr.Deref(lease.Spec.HolderIdentity, ""))
	}
}

func (e *Election) gone(obj any) {
	if _, ok := e.ours(obj); ok {
		e.held("")
	}
}

func (e *Election) held(holder string) {
	e.update(func() { e.holder = holder })
	if holder != "" {
		return
	}
	select {
	case e.freed <- struct{}{}:
	default:
	}
}

// stand is one candidacy. It ends with ctx, with the lease, or, so that the next one
// comes at once, when the lease was given up by another.
func (e *Election) stand(ctx context.Context) error {
	// The lease outlives ctx until everything is settled.
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
	unfollow := e.follow(ctx)
	defer unfollow()
	select {
	case leading := <-elected:
		unfollow()
		err = e.serve(ctx, leading)
	case <-e.freed:
	case <-over:
	case <-ctx.Done():
	}
	stop()
	<-over
	return err
}

// follow returns what ends it.
func (e *Election) follow(ctx context.Context) (end func()) {
	following, stop := context.WithCancel(ctx)
	var followed sync.WaitGroup
	followed.Go(func() { e.options.Follow(following) })
	return func() { stop(); followed.Wait() }
}

// serve leads until the lease is lost or ctx ends.
func (e *Election) serve(ctx, leading context.Context) error {
	leading, end := context.WithCancel(leading)
	defer end()
	defer context.AfterFunc(ctx, end)()
	e.update(func() { e.leading = true })
	defer e.update(func() { e.leading = false })
	return e.options.Lead(leading)
}
