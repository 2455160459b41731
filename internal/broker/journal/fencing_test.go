package journal_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestFormerWriter takes a journal over from a writer that is still alive. The tail of that writer
// is empty, has a few records, is due to be sealed, or follows sealed segments.
func TestFormerWriter(t *testing.T) {
	tests := map[string]int{
		"after its opening alone":         0,
		"in the middle of a segment":      3,
		"when its tail is due for a seal": 5,
		"after some segments":             30,
	}
	for title, records := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				former := mustOpen(t, server.Client(), smallSegments)
				for _, r := range series("n", records) {
					former.append(t, r)
				}
				present := mustOpen(t, server.Client(), smallSegments)
				if diff := cmp.Diff(former.state, present.state); diff != "" {
					t.Errorf("taken over (-former +present):\n%s", diff)
				}
				wantErrors(t, former.Append([]byte("too late")).Wait(t.Context()), journal.ErrFenced)
				wantErrors(t, <-former.ended, journal.ErrFenced)
				close(former.ended)
				wantErrors(t, former.Append([]byte("too late")).Wait(t.Context()), journal.ErrUnavailable, journal.ErrFenced)
				wantErrors(t, former.save(t.Context()), journal.ErrUnavailable, journal.ErrFenced)

				present.append(t, series("m", 10)...)
				last := mustOpen(t, server.Client(), smallSegments)
				if diff := cmp.Diff(present.state, last.state); diff != "" {
					t.Errorf("recovered (-present +last):\n%s", diff)
				}
			})
		})
	}
}

// TestOpenAgainstABusyWriter opens the journal while the former writer appends just before each
// update of the new one. So every update with a resourceVersion conflicts, and the new writer needs
// another way to take over.
func TestOpenAgainstABusyWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := journaltest.NewServer()
		former := mustOpen(t, server.Client(), smallSegments)
		client := server.Client()
		client.Inject(func(call journaltest.Call) journaltest.Fault {
			if call.Verb == "update" && former.Err() == nil {
				c := former.Append([]byte("busy"))
				if err := c.Wait(t.Context()); err == nil {
					former.state = append(former.state, journal.Record{Position: c.Position(), Data: []byte("busy")})
				}
			}
			return journaltest.None
		})
		present := mustOpen(t, client, smallSegments)
		wantErrors(t, <-former.ended, journal.ErrFenced)
		close(former.ended)
		if diff := cmp.Diff(former.state, present.state); diff != "" {
			t.Errorf("taken over (-former +present):\n%s", diff)
		}
	})
}

// TestOpenDuringTrim checkpoints and trims while another writer opens the journal: objects that the
// opening writer no longer finds are no damage.
func TestOpenDuringTrim(t *testing.T) {
	for _, part := range []string{"test-checkpoint-", "test-journal-0"} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				former := mustOpen(t, server.Client(), smallSegments)
				former.append(t, series("n", 10)...)
				runtest.Check(t, former.save(t.Context()))
				for _, r := range series("m", 10) {
					former.append(t, r)
				}
				client := server.Client()
				trims := 0
				client.Inject(func(call journaltest.Call) journaltest.Fault {
					if trims == 0 && call.Verb == "get" && strings.HasPrefix(call.Name, part) {
						trims++
						if err := former.save(t.Context()); err != nil {
							t.Error(err)
						}
					}
					return journaltest.None
				})
				present := mustOpen(t, client, smallSegments)
				if diff := cmp.Diff(former.state, present.state); diff != "" {
					t.Errorf("taken over (-former +present):\n%s", diff)
				}
				if trims == 0 {
					t.Error("nothing was trimmed meanwhile")
				}
			})
		})
	}
}

// TestContention lets many writers open one journal again and again while all append. Every
// acknowledged record must be stored at its acknowledged position.
func TestContention(t *testing.T) {
	const writers, lives, records = 6, 20, 20
	server := journaltest.NewServer()
	acknowledged := make([][]journal.Record, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range lives {
				o, err := open(server.Client(), smallSegments)
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				for _, r := range series("n", records) {
					c := o.Append([]byte(r))
					if err := c.Wait(t.Context()); err != nil {
						if !errors.Is(err, journal.ErrFenced) {
							t.Errorf("append: %v", err)
						}
						break
					}
					acknowledged[w] = append(acknowledged[w], journal.Record{Position: c.Position(), Data: []byte(r)})
				}
				o.end()
			}
		})
	}
	wg.Wait()
	final := mustOpen(t, server.Client(), smallSegments)
	stored := map[uint64]string{}
	for _, r := range final.state {
		stored[r.Position] = string(r.Data)
	}
	total := 0
	for _, records := range acknowledged {
		for _, r := range records {
			total++
			if stored[r.Position] != string(r.Data) {
				t.Fatalf("position %d holds %q, but %q was acknowledged", r.Position, stored[r.Position], r.Data)
			}
		}
	}
	if total == 0 {
		t.Error("no writer got anything done")
	}
	t.Logf("%d acknowledged, %d stored", total, len(stored))
}
