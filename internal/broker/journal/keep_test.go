package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// A reader that lags behind can continue from its place after every checkpoint, whatever the retention.
func TestRecordsAreKeptForReaders(t *testing.T) {
	for title, retention := range map[string]time.Duration{"with a retention": time.Hour, "without a retention": -1} {
		t.Run(title, func(t *testing.T) {
			now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			server := journaltest.NewServer()
			server.Now = func() time.Time { return now }
			read := journal.Place{}
			known := true
			opts := journal.Options{SegmentBytes: 200, RetainFor: retention, Keep: func() uint64 {
				if !known {
					return 0
				}
				return read.Position
			}}
			o := mustOpen(t, server.Client(), opts)
			for step := range 80 {
				now = now.Add(30 * time.Minute)
				for _, r := range series(fmt.Sprint("step", step), 5) {
					o.append(t, r)
				}
				end, err := journal.End(t.Context(), server.Client(), name, opts)
				runtest.Check(t, err)
				if step%9 == 0 {
					read = end // the reader catches up
				}
				known = step%4 != 3 // a new leader does not know yet what the reader has read
				state := fmt.Sprint("state at ", end.Position)
				runtest.Check(t, o.Checkpoint(t.Context(), []byte(state), end.Position, now))
				entries, err := walkOn(t, server.Client(), opts, read)
				if err != nil {
					t.Fatalf("step %d: the reader cannot continue from %d: %v", step, read.Position, err)
				}
				if want := end.Position + 1 - read.Position; uint64(len(entries)) < want {
					t.Fatalf("step %d: %d entries after %d, want at least %d", step, len(entries), read.Position, want)
				}
			}
			if n := len(server.Objects()); retention < 0 && n > 60 {
				t.Errorf("%d objects are stored", n)
			}
		})
	}
}
