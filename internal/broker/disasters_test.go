package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// world holds the reservations that really run, independently of the broker.
type world struct {
	*fleet
	random    *rand.Rand
	keys      int
	running   map[string]*v1.Reservation // by the key of the request
	announced map[string]bool
}

// cores is the number of CPUs of each provider. A reservation takes one.
const cores = 4

var providers = []string{"berlin", "oslo", "paris"}

// Whatever happens before and after a backup, and in whatever order the clusters announce after its
// restore: no capacity is granted twice, and the broker knows all running reservations again.
func TestManyDisasters(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				w := &world{fleet: f, random: rand.New(rand.NewPCG(seed, 0)), running: map[string]*v1.Reservation{}, announced: map[string]bool{}}
				for _, id := range append(providers, "rome") {
					f.advertise(id, map[bool]string{true: "0", false: fmt.Sprint(cores)}[id == "rome"], "64Gi", priced("1", "EUR"))
				}
				w.live()
				old := f.server.Clone()
				w.live()
				w.request("the-last-one") // so that the restored state has lost at least one reservation
				w.restore(old)
				w.check()
				w.accountsAgree()
			})
		})
	}
}

// live makes rome request and release reservations at random, up to seven times.
func (w *world) live() {
	for range w.random.IntN(8) {
		if w.random.IntN(3) > 0 {
			w.keys++
			w.request(fmt.Sprintf("request-%d", w.keys))
			continue
		}
		if len(w.running) > 0 {
			keys := slices.Sorted(maps.Keys(w.running))
			w.giveBack(keys[w.random.IntN(len(keys))])
		}
	}
}

func (w *world) request(key string) {
	w.t.Helper()
	r, err := w.RequestReservation(context.Background(), "rome", key, request("1", "1Gi"))
	if fault.ReasonOf(err) == fault.NoCandidate {
		return
	}
	runtest.Check(w.t, err)
	w.running[key] = w.carriedOut("rome", r)
}

func (w *world) giveBack(key string) {
	w.t.Helper()
	r := w.running[key]
	if _, err := w.ReleaseReservation(context.Background(), "rome", key, ""); err != nil {
		w.t.Fatal(err)
	}
	// Release takes time: sometimes the state is restored before it ends.
	if w.random.IntN(3) > 0 {
		w.mustReport("rome", r, 1, v1.StatusReportRoleConsumer, v1.StatusReportStateGone)
		w.mustReport(target(r), r, 1, v1.StatusReportRoleProvider, v1.StatusReportStateGone)
	}
	delete(w.running, key)
}

// restore puts the API server back to an old state. Then all clusters announce in random order,
// while athens asks for as much as it can get.
func (w *world) restore(old *journaltest.Server) {
	w.t.Helper()
	cursor := w.poll("rome", "").Cursor
	w.fleet.restore(old)
	w.Witness("rome", cursor)
	order := append([]string{"rome"}, providers...)
	w.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, id := range order {
		w.ask(fmt.Sprint("athens-asks-", i))
		w.repeat()
		if w.random.IntN(6) == 0 {
			w.kill()
			for told := range w.announced {
				w.tell(told) // clusters may announce without being asked
			}
		}
		w.tell(id)
		w.announced[id] = true
	}
	time.Sleep(time.Second)
	for i := range len(providers) * cores {
		w.ask(fmt.Sprint("athens-asks-more-", i))
	}
}

// repeat makes rome repeat its requests, as its agent does to renew them.
func (w *world) repeat() {
	w.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.running)) {
		if key[:6] == "athens" {
			continue
		}
		got, err := w.RequestReservation(context.Background(), "rome", key, request("1", "1Gi"))
		if fault.ReasonOf(err) == fault.Recovering {
			continue
		}
		if err != nil || got.Name != w.running[key].Name {
			w.t.Fatalf("%s is now %+v, %v; it was %s", key, got, err, w.running[key].Name)
		}
	}
}

func (w *world) tell(id string) {
	w.t.Helper()
	var provides []v1.ProvidedPlacement
	var consumes []v1.ConsumedReservation
	for _, key := range slices.Sorted(maps.Keys(w.running)) {
		if key[:6] == "athens" {
			continue // athens has no agent
		}
		r := w.running[key]
		if target(r) == id {
			provides = append(provides, provided(r, "rome")...)
		}
		if id == "rome" {
			consumes = append(consumes, wanted(r, key, request("1", "1Gi")))
		}
	}
	w.announce(id, provides, consumes...)
}

// ask makes athens request one core, and checks that only a cluster that has announced grants it.
func (w *world) ask(key string) {
	w.t.Helper()
	r, err := w.RequestReservation(context.Background(), "athens", key, request("1", "1Gi"))
	switch fault.ReasonOf(err) {
	case fault.Recovering, fault.NoCandidate:
		return
	}
	runtest.Check(w.t, err)
	if !w.announced[target(r)] {
		w.t.Fatalf("%s is granted on %s, which has not announced what it holds", key, target(r))
	}
	w.running[key] = r
}

// accountsAgree checks that the accounts are those of the remaining records: the restore has taken away what the lost
// records added, and a replica that replays the journal has the same rows.
func (w *world) accountsAgree() {
	w.t.Helper()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	w.mu.Lock()
	ours, err := json.Marshal(w.session.whole.Costs.Freeze())
	w.mu.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
	_, recovery, err := journal.Follow(w.t.Context(), w.server.Client(), JournalName, journal.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	again, err := replay.Read(recovery)
	if err != nil {
		w.t.Fatal(err)
	}
	theirs, err := json.Marshal(again.Costs.Freeze())
	if err != nil || string(ours) != string(theirs) {
		w.t.Fatalf("another replica has other accounts (%v):\n%s\n%s", err, theirs, ours)
	}
	want, err := recount(recovery)
	if err == nil {
		err = readersAgree(w.server.Client(), again.State.Latest().Add(-time.Hour), again, want)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) check() {
	w.t.Helper()
	load := map[string]int{}
	for key, r := range w.running {
		load[target(r)]++
		if key[:6] == "athens" {
			continue
		}
		got := w.reserve("rome", key, request("1", "1Gi"))
		if got.Name != r.Name || got.Phase != v1.ReservationPhaseActive || target(got) != target(r) {
			w.t.Errorf("%s is %s %s on %s, want %s Active on %s", key, got.Name, got.Phase, target(got), r.Name, target(r))
		}
	}
	for _, id := range providers {
		if load[id] > cores {
			w.t.Errorf("%s runs %d with %d cores", id, load[id], cores)
		}
		view, err := w.Cluster(context.Background(), id)
		runtest.Check(w.t, err)
		if held := view.Reserved["cpu"]; held < int64(load[id])*1000 {
			w.t.Errorf("%s holds %d, and runs %d cores", id, held, load[id])
		}
	}
}
