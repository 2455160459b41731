package journal_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// follower is a process that follows a journal, with the records that it has read.
type follower struct {
	*journal.Follower
	state []journal.Record
}

func follow(client *journaltest.Client) (*follower, error) {
	f, found, err := journal.Follow(context.Background(), client, name, smallSegments)
	if err != nil {
		return nil, err
	}
	state, err := replay(found)
	return &follower{f, state}, err
}

func mustFollow(t *testing.T, client *journaltest.Client) *follower {
	t.Helper()
	f, err := follow(client)
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	return f
}

func (f *follower) next(t *testing.T) {
	t.Helper()
	records, err := f.Next(t.Context())
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	f.state = append(f.state, records...)
}

func TestFollowerKeepsUp(t *testing.T) {
	tests := map[string]int{
		"nothing": 0, "one record": 1, "a segment": 5, "many segments": 60,
	}
	for title, records := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				former := mustOpen(t, server.Client(), smallSegments)
				former.append(t, series("before", 7)...)
				f := mustFollow(t, server.Client())
				for _, r := range series("n", records) {
					former.append(t, r)
				}
				f.next(t)
				runtest.Check(t, former.save(t.Context()))
				former.append(t, series("m", 3)...)
				f.next(t)
				f.next(t)
				former.append(t, series("last", 2)...)
				runtest.Check(t, f.takeOver(t))
				if diff := cmp.Diff(former.state, f.state); diff != "" {
					t.Errorf("taken over (-former +follower):\n%s", diff)
				}
				wantErrors(t, former.Append([]byte("too late")).Wait(t.Context()), journal.ErrFenced)
				wantErrors(t, <-former.ended, journal.ErrFenced)
				close(former.ended)
			})
		})
	}
}

// takeOver opens the journal from where the follower has read, and adds the further records to its
// state. The opened journal is not used.
func (f *follower) takeOver(t *testing.T) error {
	t.Helper()
	_, found, err := f.Open(t.Context())
	f.state = append(f.state, found.Records...)
	return err
}

func TestFollowerNoticesOtherHistory(t *testing.T) {
	tests := map[string]func(t *testing.T, server *journaltest.Server, former *owner){
		"the journal is gone": func(_ *testing.T, server *journaltest.Server, _ *owner) {
			for _, o := range server.Objects() {
				server.Tamper(o.Name, remove)
			}
		},
		"another one was begun": func(t *testing.T, server *journaltest.Server, _ *owner) {
			for _, o := range server.Objects() {
				server.Tamper(o.Name, remove)
			}
			mustOpen(t, server.Client(), smallSegments).append(t, series("other", 40)...)
		},
		"what it would read next was trimmed": func(t *testing.T, _ *journaltest.Server, former *owner) {
			for _, r := range series("n", 40) {
				former.append(t, r)
			}
			runtest.Check(t, former.save(t.Context()))
		},
	}
	for title, change := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				former := mustOpen(t, server.Client(), smallSegments)
				former.append(t, series("before", 7)...)
				f := mustFollow(t, server.Client())
				change(t, server, former)
				_, err := f.Next(t.Context())
				wantErrors(t, err, journal.ErrDiverged)
				wantErrors(t, f.takeOver(t), journal.ErrDiverged)
			})
		})
	}
}

// After an API server was restored from a snapshot, other records may have the same positions, even
// under the same resourceVersion.
func TestFollowerNoticesEarlierJournal(t *testing.T) {
	for _, more := range []int{0, 1, 2, 3, 4, 30} {
		t.Run(fmt.Sprintf("and has %d other records", more), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := journaltest.NewServer()
				former := mustOpen(t, server.Client(), smallSegments)
				former.append(t, series("before", 2)...)
				snapshot := server.Clone()
				former.append(t, series("lost", 2)...)
				f := mustFollow(t, server.Client())

				server.Restore(snapshot)
				if more > 0 {
					o := mustOpen(t, server.Client(), smallSegments)
					for _, r := range series("after", more) {
						o.append(t, r)
					}
				}
				_, err := f.Next(t.Context())
				wantErrors(t, err, journal.ErrDiverged)
				wantErrors(t, f.takeOver(t), journal.ErrDiverged)
			})
		})
	}
}
