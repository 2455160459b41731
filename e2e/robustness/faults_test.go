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
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// reachablePoints returns all points of the broker that this traffic reaches. Messages are only kept in memory, so
// their points are left out.
func reachablePoints() []failpoint.Point {
	all := slices.Concat(failpoint.Broker, failpoint.Retrying, failpoint.Durable)
	return slices.DeleteFunc(all, func(p failpoint.Point) bool { return p == failpoint.BrokerMessageKept })
}

// seldom are points that a broker reaches rarely.
var seldom = []failpoint.Point{
	failpoint.JournalOpened, failpoint.JournalSealed, failpoint.CheckpointWritten, failpoint.CheckpointValid,
	failpoint.BrokerExpired, failpoint.BrokerWithdrawn, failpoint.BrokerObjectReserved, failpoint.BrokerObjectReleased, failpoint.BrokerObjectOver,
	failpoint.BrokerObjectAttempt,
}

// armRandomly makes a process die at each point, after it has passed it a random number of times. At a point in seldom,
// it dies the first time.
func armRandomly(random *rand.Rand, folder string) []string {
	var armed []failpoint.Point
	for _, p := range reachablePoints() {
		if !slices.Contains(seldom, p) {
			p = p.After(random.IntN(12))
		}
		armed = append(armed, p)
	}
	return failpoint.Arm(folder, armed...)
}

// startRun starts replicas, the clusters of life, and all clients. If through is given, it is called with the site and
// returns a function that lets a client call the broker through something, such as a proxy. environment is added to
// that of the replicas.
func startRun(t *testing.T, random *rand.Rand, replicas int, through func(*site) func(*caller), environment ...string) (*site, *traffic, *life) {
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

// checkPromises checks all promises at the end of a run.
func checkPromises(s *site, w *traffic, l *life, lastFault time.Time) {
	s.t.Helper()
	w.end()
	l.endRequests()
	s.awaitConvergence(lastFault)
	l.end()
	s.records.awaitCaughtUp(s)
	s.records.check(s.t, w)
	s.defects.report(s.t)
	w.history.check(s.t)
}

// awaitProgress waits until clients have received the given number of further answers.
func awaitProgress(s *site, w *traffic, more int) {
	s.t.Helper()
	want := w.history.len() + more
	for deadline := time.Now().Add(patience); w.history.len() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.defects.report(s.t)
			s.t.Fatal("no more answers")
		}
	}
}

// TestKilledAtEveryPoint kills the broker repeatedly at every point of its durable writes.
func TestKilledAtEveryPoint(t *testing.T) {
	random, traces := seededRandom(t), t.TempDir()
	s, w, l := startRun(t, random, 1, nil, armRandomly(random, traces)...)
	var last time.Time
	for round := range wanted().failpointRounds {
		began := time.Now()
		for deadline := began.Add(6 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			hit, err := os.ReadDir(traces)
			s.check(err)
			if len(hit) == len(reachablePoints()) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %d of %d points were hit: %v", round+1, len(hit), len(reachablePoints()), hit)
			}
		}
		last = time.Now()
		t.Logf("round %d: killed at each of %d points in %s", round+1, len(reachablePoints()), last.Sub(began).Round(time.Second))
		awaitProgress(s, w, 50)
		if round+1 < wanted().failpointRounds {
			s.check(empty(traces))
		}
	}
	// A replica may just have died once more and be restarting.
	s.awaitReady(s.replicas[0])
	checkPromises(s, w, l, time.Now())
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

// TestBrokersKilledAtRandomTimes kills two replicas at random times, sometimes both.
func TestBrokersKilledAtRandomTimes(t *testing.T) {
	random := seededRandom(t)
	s, w, l := startRun(t, random, 2, nil)
	for range wanted().kills {
		runtest.Pause(t.Context(), time.Duration(50+random.IntN(1450))*time.Millisecond)
		s.replicas[random.IntN(2)].signal(syscall.SIGKILL)
		if random.IntN(3) == 0 {
			awaitProgress(s, w, 20)
		}
	}
	for _, r := range s.replicas {
		s.awaitReady(r)
	}
	// The lease of a dead holder must expire first.
	s.awaitAnswers()
	awaitProgress(s, w, 50)
	checkPromises(s, w, l, time.Now())
}

// awaitAnswers waits until a replica leads and answers.
func (s *site) awaitAnswers() {
	s.t.Helper()
	observer := s.caller("observer")
	if _, err := observer.callUntilDecided(s.t.Context(), http.MethodGet, "/api/v1/ping", "", nil); err != nil {
		s.t.Fatal(err)
	}
}

// TestPausedLeaderGrantsNothing stops a leader during a takeover. The leader must grant nothing
// when it continues.
func TestPausedLeaderGrantsNothing(t *testing.T) {
	random := seededRandom(t)
	s, w, l := startRun(t, random, 2, nil)
	for round := range wanted().pauses {
		awaitProgress(s, w, 10)
		leader := s.leader(nil)
		leader.signal(syscall.SIGSTOP)
		if round%4 == 3 {
			// In this case, the pause is shorter than the lease, so that the paused leader stays the leader.
			runtest.Pause(t.Context(), time.Duration(random.IntN(6000))*time.Millisecond)
		} else {
			s.leader(leader)
			awaitProgress(s, w, 10)
		}
		leader.signal(syscall.SIGCONT)
	}
	for _, r := range s.replicas {
		s.awaitReady(r)
	}
	s.awaitAnswers()
	checkPromises(s, w, l, time.Now())
}

// TestNoGrantWithoutAPIServer checks that the broker grants nothing without the API
// server, and that no reservation ends because of that.
func TestNoGrantWithoutAPIServer(t *testing.T) {
	random := seededRandom(t)
	s, w, l := startRun(t, random, 2, nil)
	awaitProgress(s, w, 50)
	pids := []int{s.replicas[0].Pid(), s.replicas[1].Pid()}
	s.check(s.plane.KillAPIServer())
	// Writes stored just before may still be answered.
	away := time.Now().Add(time.Second)
	runtest.Pause(t.Context(), wanted().outage)
	back := time.Now()
	s.check(s.plane.StartAPIServer(t.Context()))
	last := time.Now()
	s.awaitAnswers()
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
	checkPromises(s, w, l, last)
}

// TestMangledRequestsStayLinearizable cuts, duplicates and reorders requests on their way.
func TestMangledRequestsStayLinearizable(t *testing.T) {
	random := seededRandom(t)
	var p *proxy
	s, w, l := startRun(t, random, 1, func(s *site) func(*caller) {
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
	checkPromises(s, w, l, time.Now())
}

// stopIfBroken ends the test early if a client has given up.
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
