package robustness

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// points are all of the broker that this traffic comes by. Messages are kept in memory
// alone.
func points() []failpoint.Point {
	all := slices.Concat(failpoint.Broker, failpoint.Durable)
	return slices.DeleteFunc(all, func(p failpoint.Point) bool { return p == failpoint.BrokerMessageKept })
}

// seldom are points that a broker comes to once in a while.
var seldom = []failpoint.Point{
	failpoint.JournalOpened, failpoint.JournalSealed, failpoint.CheckpointWritten, failpoint.CheckpointValid,
	failpoint.BrokerExpired, failpoint.BrokerWithdrawn, failpoint.BrokerObjectReserved, failpoint.BrokerObjectReleased, failpoint.BrokerObjectOver,
}

// arm lets a process pass each point a random number of times before it dies there.
func arm(random *rand.Rand, folder string) []string {
	var armed []failpoint.Point
	for _, p := range points() {
		if !slices.Contains(seldom, p) {
			p = p.After(random.IntN(12))
		}
		armed = append(armed, p)
	}
	return failpoint.Arm(folder, armed...)
}

// begun is a run of all clients against so many replicas.
func begun(t *testing.T, random *rand.Rand, replicas int, through func(*site) func(*caller), environment ...string) (*site, *traffic, *life) {
	t.Helper()
	s := newSite(t)
	s.start(replicas, environment...)
	l := s.life(random)
	var lead func(*caller)
	if through != nil {
		lead = through(s)
	}
	return s, s.traffic(random, lead), l
}

// finish checks everything that was promised.
func finish(s *site, w *traffic, l *life, lastFault time.Time) {
	s.t.Helper()
	w.end()
	l.endRequests()
	s.converged(lastFault)
	l.end()
	s.records.caughtUp(s)
	s.records.check(s.t, w)
	s.defects.report(s.t)
	w.history.check(s.t)
}

// progress waits until clients were answered so many more times.
func progress(s *site, w *traffic, more int) {
	s.t.Helper()
	want := w.history.len() + more
	for deadline := time.Now().Add(patience); w.history.len() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.defects.report(s.t)
			s.t.Fatal("no answers any more")
		}
	}
}

// The broker dies at every point around what it writes down, again and again.
func TestKilledAtEveryPoint(t *testing.T) {
	random, traces := seeded(t), t.TempDir()
	s, w, l := begun(t, random, 1, nil, arm(random, traces)...)
	var last time.Time
	for round := range wanted().failpointRounds {
		began := time.Now()
		for deadline := began.Add(6 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			hit, err := os.ReadDir(traces)
			s.check(err)
			if len(hit) == len(points()) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %d of %d points were hit: %v", round+1, len(hit), len(points()), hit)
			}
		}
		last = time.Now()
		t.Logf("round %d: killed at each of %d points in %s", round+1, len(points()), last.Sub(began).Round(time.Second))
		progress(s, w, 50)
		if round+1 < wanted().failpointRounds {
			s.check(empty(traces))
		}
	}
	// Another of the last round's deaths may just be over: the process has come back.
	s.awaitReady(s.replicas[0])
	finish(s, w, l, time.Now())
}

func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Two replicas die at random, at times both.
func TestKilledAtRandom(t *testing.T) {
	random := seeded(t)
	s, w, l := begun(t, random, 2, nil)
	for range wanted().kills {
		pause(t.Context(), time.Duration(50+random.IntN(1450))*time.Millisecond)
		s.replicas[random.IntN(2)].signal(syscall.SIGKILL)
		if random.IntN(3) == 0 {
			progress(s, w, 20)
		}
	}
	for _, r := range s.replicas {
		s.awaitReady(r)
	}
	// A lease whose holder is dead is waited for.
	s.answering()
	progress(s, w, 50)
	finish(s, w, l, time.Now())
}

// answering waits until somebody leads.
func (s *site) answering() {
	s.t.Helper()
	observer := s.caller("observer")
	if _, err := observer.insist(s.t.Context(), http.MethodGet, "/api/v1/ping", "", nil); err != nil {
		s.t.Fatal(err)
	}
}

// A leader that is stopped while another takes over grants nothing when it goes on.
func TestAPausedLeader(t *testing.T) {
	random := seeded(t)
	s, w, l := begun(t, random, 2, nil)
	for round := range wanted().pauses {
		progress(s, w, 10)
		leader := s.leader(nil)
		leader.signal(syscall.SIGSTOP)
		if round%4 == 3 {
			// Shorter than its lease.
			pause(t.Context(), time.Duration(random.IntN(6000))*time.Millisecond)
		} else {
			s.leader(leader)
			progress(s, w, 10)
		}
		leader.signal(syscall.SIGCONT)
	}
	for _, r := range s.replicas {
		s.awaitReady(r)
	}
	s.answering()
	finish(s, w, l, time.Now())
}

// Without API server nothing is granted, and nobody ends for it.
func TestTheAPIServerIsAway(t *testing.T) {
	random := seeded(t)
	s, w, l := begun(t, random, 2, nil)
	progress(s, w, 50)
	pids := []int{s.replicas[0].Pid(), s.replicas[1].Pid()}
	s.check(s.plane.KillAPIServer())
	// What was stored just then is answered yet.
	away := time.Now().Add(time.Second)
	pause(t.Context(), wanted().outage)
	back := time.Now()
	s.check(s.plane.StartAPIServer(t.Context()))
	last := time.Now()
	s.answering()
	t.Logf("answering %s after the API server", time.Since(last).Round(10*time.Millisecond))
	for i, r := range s.replicas {
		if r.Pid() != pids[i] {
			t.Errorf("%s has ended meanwhile", r.Name())
		}
	}
	w.mu.Lock()
	for key, asked := range w.times {
		if asked.from.After(away) && asked.to.Before(back) {
			t.Errorf("%s was granted while the API server was away", key)
		}
	}
	w.mu.Unlock()
	finish(s, w, l, last)
}

// Requests are cut, doubled and reordered on their way.
func TestMangledRequests(t *testing.T) {
	random := seeded(t)
	var p *proxy
	s, w, l := begun(t, random, 1, func(s *site) func(*caller) {
		p = s.proxy(random, wanted().mangled)
		return p.lead
	})
	for deadline := time.Now().Add(time.Hour); p.remaining() > 0; time.Sleep(50 * time.Millisecond) {
		if s.stopIfBroken(); time.Now().After(deadline) {
			t.Fatalf("%d requests are still to come to harm", p.remaining())
		}
	}
	sent := int64(0)
	for _, c := range w.callers {
		sent += c.attempts.Load()
	}
	t.Logf("%d requests were sent, and came to harm: %v", sent, p.done())
	p.late.Wait()
	finish(s, w, l, time.Now())
}

// stopIfBroken ends the test early where clients have given up.
func (s *site) stopIfBroken() {
	s.t.Helper()
	s.defects.mu.Lock()
	broken := len(s.defects.found) > 0
	s.defects.mu.Unlock()
	if broken {
		s.defects.report(s.t)
		s.t.FailNow()
	}
}
