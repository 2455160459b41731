package broker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// A replica that has followed reads only new records when it takes over, and gives the same
// answers as its predecessor.
func TestFollowerContinuesWhereTheLeaderEnded(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi")
		first := f.reserve("rome", "key-0001", request("2", "1Gi"))
		stopFollowing := f.follow()
		time.Sleep(followEvery / 2)
		second := f.reserve("rome", "key-0002", request("2", "1Gi"))
		time.Sleep(followEvery)
		stopFollowing()
		third := f.reserve("rome", "key-0003", request("2", "1Gi"))
		want := f.snapshot()

		reads := f.follower.opts.Store.(interface{ Calls() int })
		before := reads.Calls()
		f.kill()
		// One call reads the tail, and the other one appends to it.
		if calls := reads.Calls() - before; calls != 2 {
			t.Errorf("it took over with %d calls of the API server, want 2", calls)
		}
		got := f.snapshot()
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("book (-leader +follower):\n%s", diff)
		}
		for key, r := range map[string]string{"key-0001": first.Name, "key-0002": second.Name, "key-0003": third.Name} {
			if again := f.reserve("rome", key, request("2", "1Gi")); again.Name != r {
				t.Errorf("%s is %s, want %s", key, again.Name, r)
			}
		}
	})
}

// A follower that has read more records than a restored API server has notices the loss itself,
// without a cluster's cursor.
func TestFollowerNoticesRestoredState(t *testing.T) {
	for title, seen := range map[string]bool{"while it follows": true, "when it takes over": false} {
		t.Run(title, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("rome", "1", "1Gi")
				f.advertise("paris", "8", "16Gi")
				old := f.server.Clone()
				f.reserve("rome", "key-0001", onParis("2", "1Gi"))
				stopFollowing := f.follow()
				time.Sleep(2 * followEvery)
				f.store.Stop()
				f.stop()
				f.server.Restore(old)
				if seen {
					time.Sleep(2 * followEvery)
				}
				stopFollowing()
				f.start()
				f.wantRefusal("athens", "key-of-athens", request("8", "1Gi"), fault.Recovering)
				if list := f.poll("paris", ""); !list.Announce {
					t.Error("paris need not announce what it holds")
				}
			})
		})
	}
}

// A follower can begin to follow at any time.
func TestFollowerStartsServingWhenItCan(t *testing.T) {
	inFleet(t, func(f *fleet) {
		runtest.Check(t, f.newBroker().standby.KeepUp(context.Background()))
	})
}

// A replica is ready to take over once it has read the journal.
func TestFollowerIsReadyOnceItHasReadTheJournal(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi")
		b := f.newBroker()
		store := b.opts.Store.(*journaltest.Client)
		store.Inject(func(journaltest.Call) journaltest.Fault { return journaltest.Refused })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go b.Follow(ctx)
		time.Sleep(time.Minute)
		if b.ReadyToFollow() == nil {
			t.Error("it is ready, but has not read the journal")
		}
		store.Inject(nil)
		time.Sleep(time.Minute)
		runtest.Check(t, b.ReadyToFollow())
	})
}

// Calls that reach a replica between its election and its first session are answered, not refused. Once
// a session has ended, or the journal could not be opened, calls are refused at once.
func TestCallsAwaitTheFirstSession(t *testing.T) {
	inFleet(t, func(f *fleet) {
		endFollowing := f.follow()
		endFollowing()
		elected := f.follower
		wait := func(b *Broker) <-chan time.Duration {
			waited, start := make(chan time.Duration, 1), time.Now()
			go func() {
				b.AwaitOpening(context.Background())
				waited <- time.Since(start)
			}()
			return waited
		}
		waiting := wait(elected)
		f.stop()
		time.Sleep(openingTime / 2)
		f.start()
		if waited := <-waiting; waited != openingTime/2 {
			t.Errorf("a call waited %s for the first session, want %s", waited, openingTime/2)
		}
		f.stop()
		if waited := <-wait(elected); waited != 0 {
			t.Errorf("a call to a former leader waited %s", waited)
		}
		f.start()

		unable := f.newBroker()
		if waited := <-wait(unable); waited != openingTime {
			t.Errorf("a call waited %s for the first session, want %s", waited, openingTime)
		}
		unable.opts.Store.(*journaltest.Client).Inject(func(journaltest.Call) journaltest.Fault { return journaltest.Refused })
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = unable.Run(ctx) })
		time.Sleep(time.Minute)
		if waited := <-wait(unable); waited != 0 {
			t.Errorf("a call waited %s although the journal cannot be read", waited)
		}
		cancel()
		running.Wait()
	})
}

// snapshot returns the broker's book as a checkpoint stores it.
func (f *fleet) snapshot() (book []byte) {
	f.t.Helper()
	f.inSession(func(t *session) {
		var err error
		book, err = t.book.Freeze().Bytes()
		runtest.Check(f.t, err)
	})
	return book
}
