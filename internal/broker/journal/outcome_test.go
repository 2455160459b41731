package journal_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

// TestOutcomes appends one record while the updates of the tail meet faults.
func TestOutcomes(t *testing.T) {
	const (
		refused    = journaltest.Refused
		lost       = journaltest.Lost
		unanswered = journaltest.Unanswered
		late       = journaltest.Late
	)
	type faults = []journaltest.Fault
	tests := map[string]struct {
		// The faults occur in this order. If endless is set, the last one repeats forever.
		faults  faults
		endless bool
		// meanwhile is called just before the second update.
		meanwhile func(*journaltest.Server)
		// reads is the fault of every read.
		reads journaltest.Fault
		want  error
		// wantStored is true if the record must be in the journal after late calls have
		// arrived.
		wantStored bool
	}{
		"no fault":                                             {wantStored: true},
		"refused: definite, nothing written":                   {faults: faults{refused}, want: journal.ErrUnavailable},
		"unanswered, but carried out: success":                 {faults: faults{unanswered}, wantStored: true},
		"lost on the way: success by repeating":                {faults: faults{lost}, wantStored: true},
		"late: the repetition is stored, the late one refused": {faults: faults{late}, wantStored: true},
		"unanswered, then refused for a while: success": {
			faults: faults{unanswered, refused, refused, refused}, wantStored: true,
		},
		"lost, then refused for a while: success": {
			faults: faults{lost, refused, refused, refused}, wantStored: true,
		},
		"lost for ever: unknown": {
			faults: faults{lost}, endless: true, want: journal.ErrUnknown,
		},
		"unanswered, then refused for ever: unknown": {
			faults: faults{unanswered, refused}, endless: true, want: journal.ErrUnknown, wantStored: true,
		},
		"late, then refused for ever: unknown, and stored in the end": {
			faults: faults{late, refused}, endless: true, want: journal.ErrUnknown, wantStored: true,
		},
		"unanswered, then the tail cannot be read: unknown": {
			faults: faults{unanswered}, reads: lost, want: journal.ErrUnknown, wantStored: true,
		},
		"unanswered, then another takes over: fenced, and stored before": {
			faults: faults{unanswered}, meanwhile: takeOver, want: journal.ErrFenced, wantStored: true,
		},
		"lost, then another takes over: fenced": {
			faults: faults{lost}, meanwhile: takeOver, want: journal.ErrFenced,
		},
		"late, then another takes over: fenced, and never stored": {
			faults: faults{late}, meanwhile: takeOver, want: journal.ErrFenced,
		},
		"unanswered, then the tail gets a label: success": {
			faults: faults{unanswered}, meanwhile: labelTail, wantStored: true,
		},
		"lost, then the tail gets a label: fenced": {
			faults: faults{lost}, meanwhile: labelTail, want: journal.ErrFenced,
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				o := mustOpen(t, server.Client(), journal.Options{})
				updates := 0
				o.client.Inject(func(call journaltest.Call) journaltest.Fault {
					if call.Verb == "get" {
						return test.reads
					}
					updates++
					if updates == 2 && test.meanwhile != nil {
						test.meanwhile(server)
					}
					switch {
					case updates <= len(test.faults):
						return test.faults[updates-1]
					case test.endless:
						return test.faults[len(test.faults)-1]
					}
					return journaltest.None
				})
				wantErrors(t, o.Append([]byte("record")).Wait(t.Context()), test.want)
				if test.want != nil {
					wantErrors(t, <-o.ended, test.want)
					close(o.ended)
				}
				server.DeliverLate()
				var want []string
				if test.wantStored {
					want = []string{"record"}
				}
				again := mustOpen(t, server.Client(), journal.Options{})
				if diff := cmp.Diff(want, texts(again.state)); diff != "" {
					t.Errorf("recovered (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestSealOutcomes appends one record to a tail that is due to be sealed, while the creation of the
// sealed copy meets faults. The tail is not changed before the copy is stored, so a failure has a
// known outcome.
func TestSealOutcomes(t *testing.T) {
	tests := map[string]struct {
		first, then journaltest.Fault
		want        error
	}{
		"refused":                                {first: journaltest.Refused, want: journal.ErrUnavailable},
		"lost, then stored":                      {first: journaltest.Lost},
		"unanswered, then found":                 {first: journaltest.Unanswered},
		"late, then stored":                      {first: journaltest.Late},
		"unanswered, then refused":               {first: journaltest.Unanswered, then: journaltest.Refused, want: journal.ErrUnavailable},
		"lost for ever":                          {first: journaltest.Lost, then: journaltest.Lost, want: journal.ErrUnavailable},
		"carried out, but unanswered every time": {first: journaltest.Unanswered, then: journaltest.Unanswered, want: journal.ErrUnavailable},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				o := mustOpen(t, server.Client(), journal.Options{SegmentBytes: 1})
				fault := test.first
				o.client.Inject(func(call journaltest.Call) journaltest.Fault {
					if call.Verb != "create" {
						return journaltest.None
					}
					now := fault
					fault = test.then
					return now
				})
				wantErrors(t, o.Append([]byte("record")).Wait(t.Context()), test.want)
				server.DeliverLate()
				again := mustOpen(t, server.Client(), journal.Options{SegmentBytes: 1})
				var want []string
				if test.want == nil {
					want = []string{"record"}
				}
				if diff := cmp.Diff(want, texts(again.state)); diff != "" {
					t.Errorf("recovered (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// labelTail adds a label to the tail, which changes its resourceVersion but no record.
func labelTail(server *journaltest.Server) {
	server.Tamper("test-journal-tail", func(obj *journal.Object) bool {
		obj.Labels["example.com/seen"] = "yes"
		return true
	})
}

// takeOver opens the journal as another writer.
func takeOver(server *journaltest.Server) {
	if _, _, err := journal.Open(context.Background(), server.Client(), name, journal.Options{}); err != nil {
		panic(err)
	}
}
