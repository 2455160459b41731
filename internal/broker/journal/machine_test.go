package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// machine drives several processes on one API server with faults at random.
type machine struct {
	server *journaltest.Server
	// owners holds the processes, alive or cut off, each with its recovered and appended records.
	owners []*owner
	// followed follows the journal; nil before the first follow.
	followed *follower
	pending  []attempt
	// records counts all appended records, so that each is unique.
	records int
}

// attempt is a record that some owner appended.
type attempt struct {
	text   string
	commit *journal.Commit
}

// TestMachine checks under any faults that an acknowledged record is recovered at its position,
// that a refused one is not, and that no record is duplicated, reordered or invented.
func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// T.Deadline must not be called in a bubble. Rapid calls it only on a plain *testing.T, so
		// this wrapper prevents the call. Rapid then stops after a day, which the clock of the
		// bubble reaches in some 3,000 runs.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			m := &machine{server: journaltest.NewServer()}
			// Rapid may abandon a run in the middle, before finish ends the owners.
			rt.Cleanup(func() {
				for _, o := range m.owners {
					o.end()
				}
			})
			rt.Repeat(map[string]func(*rapid.T){
				"open":       m.open,
				"append":     m.append,
				"follow":     m.follow,
				"take over":  m.takeOver,
				"time":       func(*rapid.T) { time.Sleep(time.Second) },
				"checkpoint": m.checkpoint,
				"faults":     m.faults,
				"deliver":    func(*rapid.T) { m.server.DeliverLate() },
				"crash":      m.crash,
				// After each action, let everything finish that needs no time to pass.
				"": func(*rapid.T) { synctest.Wait() },
			})
			m.finish(rt)
		})
	})
}

func (m *machine) open(rt *rapid.T) {
	client := m.server.Client()
	if rapid.Bool().Draw(rt, "with faults") {
		client.Inject(drawFaults(rt))
	}
	if o, err := open(client, smallSegments); err == nil {
		m.owners = append(m.owners, o)
	} else if !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) {
		rt.Fatalf("open: %v", err)
	}
}

// follow begins to follow the journal, or reads the records that are new since the last call.
func (m *machine) follow(rt *rapid.T) {
	if m.followed == nil {
		f, err := follow(m.server.Client())
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			rt.Fatalf("follow: %v", err)
		}
		m.followed = f
		return
	}
	records, err := m.followed.Next(rt.Context())
	if errors.Is(err, journal.ErrDiverged) {
		m.followed = nil // the journal no longer has the record that the follower has reached
		return
	}
	if err != nil {
		rt.Fatalf("follow: %v", err)
	}
	m.followed.state = append(m.followed.state, records...)
}

// takeOver checks that a follower that opens the journal has the same state as a reader of all
// objects.
func (m *machine) takeOver(rt *rapid.T) {
	f := m.followed
	if f == nil {
		return
	}
	m.followed = nil
	j, found, err := f.Open(rt.Context())
	if errors.Is(err, journal.ErrDiverged) {
		return
	}
	if err != nil {
		rt.Fatalf("take over: %v", err)
	}
	_, all, err := journal.Follow(rt.Context(), m.server.Client(), name, smallSegments)
	if err != nil {
		rt.Fatalf("read: %v", err)
	}
	state, err := replay(all)
	runtest.Check(rt, err)
	if diff := cmp.Diff(state, append(f.state, found.Records...)); diff != "" || all.Head != found.Head {
		rt.Fatalf("taken over at %d, all at %d (-read +followed):\n%s", found.Head, all.Head, diff)
	}
	m.owners = append(m.owners, start(j, m.server.Client(), found, state))
}

// pick draws one of the three owners opened last; nil if there is none.
func (m *machine) pick(rt *rapid.T) *owner {
	if len(m.owners) == 0 {
		return nil
	}
	i := rapid.IntRange(0, min(2, len(m.owners)-1)).Draw(rt, "how long ago opened")
	return m.owners[len(m.owners)-1-i]
}

func (m *machine) append(rt *rapid.T) {
	o := m.pick(rt)
	if o == nil {
		return
	}
	for range rapid.IntRange(1, 3).Draw(rt, "records") {
		m.records++
		text := fmt.Sprintf(`{"record":%d}`, m.records)
		m.pending = append(m.pending, attempt{text: text, commit: o.Append([]byte(text))})
	}
}

func (m *machine) faults(rt *rapid.T) {
	if o := m.pick(rt); o != nil {
		o.client.Inject(drawFaults(rt))
	}
}

// drawFaults draws the faults of up to twelve calls. Later calls succeed.
func drawFaults(rt *rapid.T) func(journaltest.Call) journaltest.Fault {
	list := rapid.SliceOfN(rapid.SampledFrom([]journaltest.Fault{
		journaltest.None, journaltest.None, journaltest.None, journaltest.Refused, journaltest.Lost,
		journaltest.Unanswered, journaltest.Late, journaltest.StoppedAfter,
	}), 0, 12).Draw(rt, "faults")
	return func(journaltest.Call) journaltest.Fault {
		if len(list) == 0 {
			return journaltest.None
		}
		next := list[0]
		list = list[1:]
		return next
	}
}

// checkpoint stores the state up to the last position that an owner knows to be committed, as
// its successor would recover it.
func (m *machine) checkpoint(rt *rapid.T) {
	o := m.pick(rt)
	if o == nil || o.Err() != nil {
		return
	}
	position := o.Committed()
	_, found, err := journal.Follow(rt.Context(), m.server.Client(), name, smallSegments)
	if err != nil {
		rt.Fatalf("read: %v", err)
	}
	state, err := replay(found)
	runtest.Check(rt, err)
	state = slices.DeleteFunc(state, func(r journal.Record) bool { return r.Position > position })
	_ = o.saveAt(rt.Context(), state, position) // the call may meet faults, or the owner may be fenced off
}

func (m *machine) crash(rt *rapid.T) {
	if o := m.pick(rt); o != nil {
		o.client.Stop()
	}
}

// finish lets all calls complete and compares the journal with the outcomes that the owners
// got.
func (m *machine) finish(rt *rapid.T) {
	for _, o := range m.owners {
		o.client.Inject(nil)
	}
	for _, a := range m.pending {
		<-a.commit.Done()
	}
	for _, o := range m.owners {
		o.end()
	}
	m.server.DeliverLate()
	final, err := open(m.server.Client(), smallSegments)
	if err != nil {
		rt.Fatalf("open at the end: %v", err)
	}
	defer final.end()
	if _, err := journal.Verify(rt.Context(), m.server.Client(), name, smallSegments); err != nil {
		rt.Fatal(err)
	}
	m.compare(rt, final.state)
}

func (m *machine) compare(rt *rapid.T, state []journal.Record) {
	stored := map[string]uint64{}
	last := uint64(0)
	for _, r := range state {
		if r.Position <= last {
			rt.Fatalf("position %d follows %d", r.Position, last)
		}
		if at, twice := stored[string(r.Data)]; twice {
			rt.Fatalf("record %s is stored at %d and %d", r.Data, at, r.Position)
		}
		stored[string(r.Data)], last = r.Position, r.Position
	}
	for _, a := range m.pending {
		position, isStored := stored[a.text]
		delete(stored, a.text)
		err := a.commit.Wait(rt.Context())
		switch {
		case err == nil && position != a.commit.Position():
			rt.Fatalf("record %s was acknowledged at %d, but is at %d", a.text, a.commit.Position(), position)
		case errors.Is(err, journal.ErrUnavailable) && isStored:
			rt.Fatalf("record %s was refused (%v), but is at %d", a.text, err, position)
		case err != nil && !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrFenced):
			rt.Fatalf("record %s: unexpected error %v", a.text, err)
		}
	}
	if len(stored) > 0 {
		rt.Fatalf("nobody appended %v", stored)
	}
}
