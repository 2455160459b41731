package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

func TestRecordsSurvive(t *testing.T) {
	tests := map[string][]string{
		"one line of JSON":          {`{"a":1}`},
		"JSON with spaces around":   {` {"a": 1} `, "\t[]\r"},
		"JSON over several lines":   {"{\n\"a\": 1\n}"},
		"plain text":                {"hello", "record\":", `"}`, "}"},
		"an empty record":           {""},
		"bytes that are no UTF-8":   {"\xff\xfe", "\"\xff\"", "\x00"},
		"text that looks like ours": {`{"p":1,"h":"0","record":{}}`},
		"the largest record":        {strings.Repeat("\xff", journal.MaxRecordBytes)},
		"many segments":             series("n", 500),
		"several batches at once":   {string(bytes.Repeat([]byte("a"), 60_000)), string(bytes.Repeat([]byte("b"), 60_000)), string(bytes.Repeat([]byte("c"), 60_000)), string(bytes.Repeat([]byte("d"), 60_000)), string(bytes.Repeat([]byte("e"), 60_000)), string(bytes.Repeat([]byte("f"), 60_000))},
	}
	for title, records := range tests {
		t.Run(title, func(t *testing.T) {
			server := journaltest.NewServer()
			first := mustOpen(t, server.Client(), journal.Options{})
			first.append(t, records...)
			first.end()
			again := mustOpen(t, server.Client(), journal.Options{})
			if diff := cmp.Diff(first.state, again.state); diff != "" {
				t.Errorf("recovered state (-want +got):\n%s", diff)
			}
			if again.ID() != first.ID() || again.found.ID != first.ID() {
				t.Errorf("ID is %q, was %q", again.ID(), first.ID())
			}
			if again.found.Head != first.Committed()+1 {
				t.Errorf("head is %d, want the record of opening at %d", again.found.Head, first.Committed()+1)
			}
		})
	}
}

// TestGroupCommit uses an API server which takes a second for each call, so that all records
// appended meanwhile share the next call.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := journaltest.NewServer().Client()
		o := mustOpen(t, client, journal.Options{})
		client.SetLatency(time.Second)
		before := client.Calls()
		first := o.Append([]byte("first"))
		synctest.Wait()
		var rest []*journal.Commit
		for range 100 {
			rest = append(rest, o.Append([]byte("more")))
		}
		start := time.Now()
		for i, c := range append([]*journal.Commit{first}, rest...) {
			if err := c.Wait(t.Context()); err != nil {
				t.Fatalf("append: %v", err)
			}
			if want := first.Position() + uint64(i); c.Position() != want {
				t.Errorf("position %d, want %d", c.Position(), want)
			}
		}
		if got := client.Calls() - before; got != 2 {
			t.Errorf("101 records took %d calls, want 2", got)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("101 records took %s, want 2s", took)
		}
		o.end()
	})
}

// TestCallersThatComeAgain lets callers append again as soon as they get an answer. Whatever their
// initial order, they soon share every update. A single caller waits only for its own updates.
func TestCallersThatComeAgain(t *testing.T) {
	const rounds, latency = 20, 20 * time.Millisecond
	for title, test := range map[string]struct {
		callers int
		// records bounds how many records each caller appends at a time. It then waits for the
		// last.
		records int
		// most bounds the number of updates, longest the time that all of them take.
		most    int
		longest time.Duration
	}{
		"one caller":                  {callers: 1, records: 1, most: rounds, longest: rounds * latency},
		"one caller that writes more": {callers: 1, records: 3, most: 2 * rounds, longest: 2 * rounds * latency},
		"two callers":                 {callers: 2, records: 1, most: rounds + 2, longest: (rounds + 2) * latency},
		"many callers":                {callers: 30, records: 1, most: rounds + 3, longest: (rounds + 4) * latency},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := journaltest.NewServer().Client()
				o := mustOpen(t, client, journal.Options{SegmentBytes: 1 << 18})
				client.SetLatency(latency)
				before, start := client.Calls(), time.Now()
				var calling sync.WaitGroup
				for i := range test.callers {
					time.Sleep(2 * latency / time.Duration(test.callers))
					calling.Go(func() {
						for n := range rounds {
							var last *journal.Commit
							for range 1 + n%test.records {
								last = o.Append(fmt.Appendf(nil, "%d/%d", i, n))
							}
							if err := last.Wait(t.Context()); err != nil {
								t.Errorf("append: %v", err)
							}
						}
					})
				}
				calling.Wait()
				if got := client.Calls() - before; got > test.most {
					t.Errorf("%d callers took %d updates for %d records each, want at most %d", test.callers, got, rounds, test.most)
				}
				took := time.Since(start) - 2*latency
				if took > test.longest {
					t.Errorf("%d callers took %s, want at most %s", test.callers, took, test.longest)
				}
				if test.callers == 1 && took%latency != 0 {
					t.Errorf("%s were spent on more than updates", took)
				}
				o.end()
			})
		})
	}
}

func TestRefusedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := journaltest.NewServer().Client()
		o := mustOpen(t, client, journal.Options{QueueRecords: 2})
		defer o.end()

		large := o.Append(make([]byte, journal.MaxRecordBytes+1))
		wantErrors(t, large.Wait(t.Context()), journal.ErrTooLarge, journal.ErrUnavailable)

		client.SetLatency(time.Second)
		sent := o.Append([]byte("sent"))
		synctest.Wait()
		queued := []*journal.Commit{o.Append([]byte("1")), o.Append([]byte("2"))}
		full := o.Append([]byte("3"))
		wantErrors(t, full.Wait(t.Context()), journal.ErrFull, journal.ErrUnavailable)
		if full.Position() != 0 {
			t.Errorf("a refused record has position %d, want 0", full.Position())
		}

		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wantErrors(t, queued[0].Wait(brief), context.DeadlineExceeded)
		for _, c := range append(queued, sent) {
			wantErrors(t, c.Wait(t.Context()))
		}
		o.append(t, "room again")
	})
}

// TestStop ends Run while one commit is in flight and one record is queued.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := journaltest.NewServer().Client()
		o := mustOpen(t, client, journal.Options{})
		client.SetLatency(time.Second)
		sent := o.Append([]byte("sent"))
		synctest.Wait()
		queued := o.Append([]byte("queued"))
		o.stop()
		if err := <-o.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		close(o.ended)
		wantErrors(t, sent.Wait(t.Context()))
		wantErrors(t, queued.Wait(t.Context()), journal.ErrUnavailable, context.Canceled)
		wantErrors(t, o.Append([]byte("late")).Wait(t.Context()), journal.ErrUnavailable)
		wantErrors(t, o.Err(), context.Canceled)
		client.SetLatency(0)
		again := mustOpen(t, client, journal.Options{})
		defer again.end()
		if diff := cmp.Diff([]string{"sent"}, texts(again.state)); diff != "" {
			t.Errorf("recovered state (-want +got):\n%s", diff)
		}
	})
}

func TestInvalidOptions(t *testing.T) {
	tests := map[string]struct {
		name string
		opts journal.Options
	}{
		"a name that is no DNS label":                {name: "Not_A_Label"},
		"no name":                                    {},
		"segments beyond what an object holds":       {name: name, opts: journal.Options{SegmentBytes: 1 << 20}},
		"a negative queue":                           {name: name, opts: journal.Options{QueueRecords: -1}},
		"a negative time for an outcome to be known": {name: name, opts: journal.Options{OutcomeTimeout: -1}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			client := journaltest.NewServer().Client()
			if _, _, err := journal.Open(t.Context(), client, test.name, test.opts); err == nil {
				t.Error("open succeeded")
			}
			if client.Calls() != 0 {
				t.Errorf("%d calls were made", client.Calls())
			}
		})
	}
}

// wantErrors checks that err wraps every error in want that is not nil. If there is none, err must
// be nil.
func wantErrors(t *testing.T, err error, want ...error) {
	t.Helper()
	want = slices.DeleteFunc(want, func(w error) bool { return w == nil })
	if len(want) == 0 && err != nil {
		t.Errorf("got error %v, want none", err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("got error %v, want %v", err, w)
		}
	}
}

// TestOpeningAJournalThatAnotherWriterHasJustBegun lets another writer create the journal and seal
// segments after the first writer has seen no tail.
func TestOpeningAJournalThatAnotherWriterHasJustBegun(t *testing.T) {
	server := journaltest.NewServer()
	late, begun := server.Client(), false
	late.Inject(func(call journaltest.Call) journaltest.Fault {
		if call.Verb == "list" && !begun {
			begun = true
			other := mustOpen(t, server.Client(), smallSegments)
			for _, record := range series("n", 30) {
				other.append(t, record)
			}
			other.end()
		}
		return journaltest.None
	})
	o := mustOpen(t, late, smallSegments)
	if !begun || len(o.state) != 30 {
		t.Errorf("%d records were found, want 30", len(o.state))
	}
}
