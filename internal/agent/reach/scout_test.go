package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// world simulates the endpoints that a Scout probes.
type world struct {
	mu     sync.Mutex
	shut   map[string]error
	slow   time.Duration
	dialed []string
	at     int
	most   int
}

func (w *world) dial(ctx context.Context, endpoint string) (time.Duration, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, endpoint)
	w.at++
	w.most = max(w.most, w.at)
	err, slow := w.shut[endpoint], w.slow
	w.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	w.at--
	w.mu.Unlock()
	return 3 * time.Millisecond, err
}

func (w *world) count(endpoint string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(w.dialed), func(e string) bool { return e != endpoint }))
}

func peer(id string) v1.Peer { return v1.Peer{ClusterID: id, EndpointURL: "https://" + id} }

// scouting runs test with a running Scout, in virtual time.
func scouting(t *testing.T, test func(*Scout, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{shut: map[string]error{"https://berlin": errors.New("connection refused")}}
		s := newScout(w.dial, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Start(ctx)
		}()
		defer func() {
			cancel()
			<-done
		}()
		test(s, w)
	})
}

func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func isNews(s *Scout) bool {
	select {
	case <-s.Changed():
		return true
	default:
		return false
	}
}

func TestPeersAreProbedAndReportedOnce(t *testing.T) {
	scouting(t, func(s *Scout, w *world) {
		s.ProbePeers([]v1.Peer{peer("paris"), peer("berlin")})
		settle()
		found := s.Unreported()
		slices.SortFunc(found, func(a, b v1.Link) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
		want := []v1.Link{
			{ClusterID: "berlin", EndpointURL: "https://berlin", Message: "connection refused"},
			{ClusterID: "paris", EndpointURL: "https://paris", Reachable: true, RoundTripMicroseconds: 3000},
		}
		if diff := gocmp.Diff(want, found); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
		if !isNews(s) || w.count("https://berlin") != 2 || w.count("https://paris") != 1 {
			t.Errorf("dialled %v; that berlin cannot be reached is news, and only after a second try", w.dialed)
		}
		s.MarkReported(found)
		if again := s.Unreported(); len(again) != 0 {
			t.Errorf("the broker has it, and is told %v again", again)
		}

		s.ProbePeers([]v1.Peer{peer("berlin")})
		settle()
		if isNews(s) || len(s.Unreported()) != 1 {
			t.Errorf("that berlin cannot be reached still is no news, and found is %v", s.Unreported())
		}
		w.mu.Lock()
		w.shut = nil
		w.mu.Unlock()
		s.ProbePeers([]v1.Peer{peer("berlin")})
		settle()
		if found := s.Unreported(); !isNews(s) || len(found) != 1 || !found[0].Reachable {
			t.Errorf("that it can be reached again is news; found %v", found)
		}
	})
}

func TestTunnelTakesPrecedenceOverAPIServer(t *testing.T) {
	tests := map[string]struct {
		cluster string
		through Through
		want    v1.Link
	}{
		"what it measured": {
			cluster: "paris", through: func(context.Context, string) (time.Duration, string, bool) { return 12 * time.Millisecond, "", true },
			want: v1.Link{Reachable: true, RoundTripMicroseconds: 12000},
		},
		"there is none": {
			cluster: "paris", through: func(context.Context, string) (time.Duration, string, bool) { return 0, "", false },
			want: v1.Link{Reachable: true, RoundTripMicroseconds: 3000},
		},
		"it fails": {
			cluster: "paris", through: func(context.Context, string) (time.Duration, string, bool) { return 0, "no gateway answers", true },
			want: v1.Link{Message: "no gateway answers"},
		},
		"the API server does not answer": {
			cluster: "berlin", through: func(context.Context, string) (time.Duration, string, bool) { return 12 * time.Millisecond, "", true },
			want: v1.Link{Message: "connection refused"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			scouting(t, func(s *Scout, _ *world) {
				s.Through(test.through)
				s.ProbePeers([]v1.Peer{peer(test.cluster)})
				settle()
				test.want.ClusterID, test.want.EndpointURL = test.cluster, "https://"+test.cluster
				if diff := gocmp.Diff([]v1.Link{test.want}, s.Unreported()); diff != "" {
					t.Errorf("found (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestNewerResultsAreNotMarkedDelivered(t *testing.T) {
	scouting(t, func(s *Scout, w *world) {
		s.ProbePeers([]v1.Peer{peer("paris")})
		settle()
		told := s.Unreported()
		w.mu.Lock()
		w.shut["https://paris"] = errors.New("i/o timeout")
		w.mu.Unlock()
		s.ProbePeers([]v1.Peer{peer("paris")})
		settle()
		s.MarkReported(told)
		if found := s.Unreported(); len(found) != 1 || found[0].Reachable {
			t.Errorf("found %v", found)
		}
	})
}

func TestFewAreDialledAtOnceAndPlacementsFirst(t *testing.T) {
	scouting(t, func(s *Scout, w *world) {
		w.slow = dialTimeout
		var peers []v1.Peer
		for i := range 16 {
			peers = append(peers, peer(fmt.Sprint(i)))
		}
		s.ProbePeers(peers)
		time.Sleep(dialTimeout / 2)
		if why, known := s.Check("res-a-1", "https://oslo"); known || why != "" {
			t.Errorf("known before it was looked at: %q", why)
		}
		select {
		case got := <-s.Checked():
			if got.Object != "res-a-1" {
				t.Errorf("told of %q", got.Object)
			}
		case <-time.After(2*dialTimeout + spread):
			t.Error("a placement waits for those that nobody waits for")
		}
		if why, known := s.Check("res-a-1", "https://oslo"); !known || why != "" {
			t.Errorf("known: %t, %q", known, why)
		}
		settle()
		if w.most != atOnce || len(s.Unreported()) != 16 {
			t.Errorf("%d were dialled at once, and %d found", w.most, len(s.Unreported()))
		}
	})
}

func TestPlacementIsProbedOncePerAddress(t *testing.T) {
	scouting(t, func(s *Scout, w *world) {
		s.Check("res-a-1", "https://berlin")
		<-s.Checked()
		if why, known := s.Check("res-a-1", "https://berlin"); !known || why != "connection refused" {
			t.Errorf("known: %t, %q", known, why)
		}
		settle()
		if got := w.count("https://berlin"); got != 2 {
			t.Errorf("dialled %d times", got)
		}
		if _, known := s.Check("res-a-1", "https://paris"); known {
			t.Error("another address is known")
		}
		<-s.Checked()
		s.Forget("res-a-1")
		if _, known := s.Check("res-a-1", "https://paris"); known {
			t.Error("what was forgotten is known")
		}
		<-s.Checked()
	})
}
