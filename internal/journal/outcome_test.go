package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/journal/journaltest"
)

// always is a fault without an end.
const always = 1 << 30

// TestOutcomes appends one record while the updates of the tail meet faults.
func TestOutcomes(t *testing.T) {
	type faults = map[journaltest.Fault]int
	tests := map[string]struct {
		// faults happen in this order, so many times each.
		faults []faults
		// meanwhile happens after the first update.
		meanwhile func(*journaltest.Server)
		// reads also meet faults.
		reads journaltest.Fault
		want  error
		// wantStored tells whether the record is in the journal, once what was late
		// has arrived.
		wantStored bool
	}{
		"no fault": {wantStored: true},
		"refused: definite, nothing written": {
			faults: []faults{{journaltest.Refused: 1}}, want: journal.ErrUnavailable,
		},
		"unanswered, but carried out: success": {
			faults: []faults{{journaltest.Unanswered: 1}}, wantStored: true,
		},
		"lost on the way: success by repeating": {
			faults: []faults{{journaltest.Lost: 1}}, wantStored: true,
		},
		"late: the repetition is stored, the late one refused": {
			faults: []faults{{journaltest.Late: 1}}, wantStored: true,
		},
		"unanswered, then the connection is refused for a while: success": {
			faults: []faults{{journaltest.Unanswered: 1}, {journaltest.Refused: 4}}, wantStored: true,
		},
		"lost, then refused for a while: success": {
			faults: []faults{{journaltest.Lost: 1}, {journaltest.Refused: 4}}, wantStored: true,
		},
		"lost for ever: unknown": {
			faults: []faults{{journaltest.Lost: always}}, want: journal.ErrUnknown,
		},
		"unanswered, then refused for ever: unknown": {
			faults: []faults{{journaltest.Unanswered: 1}, {journaltest.Refused: always}}, want: journal.ErrUnknown, wantStored: true,
		},
		"late, then refused for ever: unknown, and stored in the end": {
			faults: []faults{{journaltest.Late: 1}, {journaltest.Refused: always}}, want: journal.ErrUnknown, wantStored: true,
		},
		"unanswered, then the tail cannot be read: unknown": {
			faults: []faults{{journaltest.Unanswered: 1}}, reads: journaltest.Lost, want: journal.ErrUnknown, wantStored: true,
		},
		"unanswered, then another takes over: fenced, and stored before": {
			faults: []faults{{journaltest.Unanswered: 1}}, meanwhile: takeOver, want: journal.ErrFenced, wantStored: true,
		},
		"lost, then another takes over: fenced": {
			faults: []faults{{journaltest.Lost: 1}}, meanwhile: takeOver, want: journal.ErrFenced,
		},
		"late, then another takes over: fenced, and never stored": {
			faults: []faults{{journaltest.Late: 1}}, meanwhile: takeOver, want: journal.ErrFenced,
		},
		"unanswered, then the tail gets a label: success": {
			faults: []faults{{journaltest.Unanswered: 1}}, meanwhile: labelTail, wantStored: true,
		},
		"lost, then the tail gets a label: fenced": {
			faults: []faults{{journaltest.Lost: 1}}, meanwhile: labelTail, want: journal.ErrFenced,
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				o := mustOpen(t, server.Client(), journal.Options{})
				queue := test.faults
				first := true
				o.client.Inject(func(call journaltest.Call) journaltest.Fault {
					if call.Verb == "get" {
						return test.reads
					}
					if !first && test.meanwhile != nil {
						test.meanwhile(server)
						test.meanwhile = nil
					}
					first = false
					if len(queue) == 0 {
						return journaltest.None
					}
					for fault, times := range queue[0] {
						queue[0] = faults{fault: times - 1}
						if times == 1 {
							queue = queue[1:]
						}
						return fault
					}
					return journaltest.None
				})
				err := o.Append([]byte("record")).Wait(t.Context())
				if !errors.Is(err, test.want) {
					t.Fatalf("got error %v, want %v", err, test.want)
				}
				if test.want != nil {
					if err := <-o.ended; !errors.Is(err, test.want) {
						t.Errorf("run ended with %v, want %v", err, test.want)
					}
					close(o.ended)
				}
				server.DeliverLate()
				again := mustOpen(t, server.Client(), journal.Options{})
				var want []string
				if test.wantStored {
					want = []string{"record"}
				}
				if diff := cmp.Diff(want, texts(again.state)); diff != "" {
					t.Errorf("recovered (-want +got):\n%s", diff)
				}
				again.end()
				o.end()
			})
		})
	}
}

// TestSealOutcomes appends one record to a tail that is due for its seal, while the
// creation of the copy meets faults. The tail is not touched before the copy is safe.
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

// labelTail changes the tail's version and nothing that counts.
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
