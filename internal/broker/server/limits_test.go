package server

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestLimitsRememberABoundedNumberOfClusters(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(1, 2)
	l.room = 3
	for i := range 100 {
		done, err := l.admitRequest(fmt.Sprintf("cluster-%d", i), now)
		runtest.Check(t, err)
		done()
		if len(l.clients) > l.room {
			t.Fatalf("%d clusters remembered; want at most %d", len(l.clients), l.room)
		}
	}
}

func TestLimitsRememberClustersWithRequestsInFlight(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(1, 2)
	l.room = 2
	for _, cluster := range []string{"busy", "busy", "new", "newer", "newest"} {
		if _, err := l.admitRequest(cluster, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.admitRequest("busy", now); fault.ReasonOf(err) != fault.TooManyRequests {
		t.Errorf("busy cluster: %v; want it remembered and refused", err)
	}
}

func TestLimitsSetRetryAfter(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(0.1, 1)
	if _, err := l.admitRequest("rome", now); err != nil {
		t.Fatal(err)
	}
	_, err := l.admitRequest("rome", now.Add(4*time.Second))
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.RetryAfter.Round(time.Millisecond) != 6*time.Second {
		t.Errorf("refusal %+v; want a retry after 6 s", refusal)
	}
	if _, err := l.admitRequest("rome", now.Add(10*time.Second)); err != nil {
		t.Errorf("after the announced wait: %v", err)
	}
}

// TestTotalLimitAppliesToAllCallers checks that one caller cannot use up the total, because its own
// limit comes first.
func TestTotalLimitAppliesToAllCallers(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(1, 2)
	l.total = rate.NewLimiter(1, 4)
	granted := map[string]int{}
	for range 10 {
		for _, caller := range []string{"a", "b", "c"} {
			if done, err := l.admitRequest(caller, now); err == nil {
				done()
				granted[caller]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1, "c": 1}, granted); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
}

// TestChangedLimitsApplyToTheNextRequest checks that new limits apply to known callers too.
func TestChangedLimitsApplyToTheNextRequest(t *testing.T) {
	now := time.Unix(0, 0)
	set := access.Limits{}
	l := newLimits(1, 5)
	l.set = func() access.Limits { return set }
	granted := func() (n int) {
		for range 10 {
			if done, err := l.admitRequest("rome", now); err == nil {
				done()
				n++
			}
		}
		return n
	}
	if got := granted(); got != 5 {
		t.Errorf("by default %d at once, want 5", got)
	}
	set = access.Limits{PerSecond: 3, Burst: 3}
	now = now.Add(time.Minute)
	if got := granted(); got != 3 {
		t.Errorf("%d at once, want the 3 that are set", got)
	}
	set = access.Limits{PerSecond: 1000, InFlight: 1}
	now = now.Add(time.Minute)
	if _, err := l.admitRequest("rome", now); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admitRequest("rome", now); fault.ReasonOf(err) != fault.TooManyRequests {
		t.Errorf("a second request in flight: %v", err)
	}
}
