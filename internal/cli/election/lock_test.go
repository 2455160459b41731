package election

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// running is the key of a context value that elector.Run passes on, except when it releases the lease.
type running struct{}

// memoryLock is a lease in memory. Once another holder has it, the elector fails to renew it, as a process does that
// was suspended for too long.
type memoryLock struct {
	resourcelock.Interface
	mu     sync.Mutex
	record resourcelock.LeaderElectionRecord
}

func (l *memoryLock) Identity() string   { return "ours" }
func (l *memoryLock) Describe() string   { return "lease" }
func (l *memoryLock) RecordEvent(string) {}

func (l *memoryLock) check(ctx context.Context) error {
	if l.record.HolderIdentity == "theirs" && ctx.Value(running{}) != nil {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *memoryLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record := l.record
	return &record, []byte(record.HolderIdentity), l.check(ctx)
}

func (l *memoryLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return err
	}
	l.record = r
	return nil
}

// A leader that was suspended does not know that another replica has taken the lease over. client-go's elector then
// reads the lease and releases it, whoever holds it.
func TestLeaseOfAnotherHolderIsNotReleased(t *testing.T) {
	for name, tc := range map[string]struct{ holder, want string }{
		"its own":       {"ours", ""},
		"another one's": {"theirs", "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &memoryLock{}
			ctx, stop := context.WithCancel(context.WithValue(t.Context(), running{}, true))
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: &Lock{Interface: inner}, Name: "test", ReleaseOnCancel: true,
				LeaseDuration: 8 * time.Second, RenewDeadline: 5 * time.Second, RetryPeriod: time.Second,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) {
						inner.mu.Lock()
						inner.record.HolderIdentity = tc.holder
						inner.mu.Unlock()
						stop()
					},
					OnStoppedLeading: func() {},
				},
			})
			runtest.Check(t, err)
			elector.Run(ctx)
			if got := inner.record.HolderIdentity; got != tc.want {
				t.Errorf("the lease is held by %q, want %q", got, tc.want)
			}
		})
	}
}
