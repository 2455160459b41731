package replay_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The second head was signed while the broker's clock was a year ahead.
func TestNewestHeadIsKeptAfterTheClockWasAhead(t *testing.T) {
	store, now := journaltest.NewServer().Client(), time.Date(2026, time.November, 20, 10, 0, 0, 0, time.UTC)
	put := func(position uint64, at time.Time) {
		text, err := json.Marshal(receipt.Head{SignedAt: at, Head: receipt.Place{ID: "5c1f", Position: position, Hash: "hash"}})
		runtest.Check(t, err)
		obj, err := replay.PackHead(journalName, position, &brokerv1alpha1.Receipt{Statement: string(text), Certificates: [][]byte{{1}}})
		runtest.Check(t, err)
		_, err = store.Create(t.Context(), obj)
		runtest.Check(t, err)
		runtest.Check(t, replay.DropHeads(t.Context(), store, journalName, 24*time.Hour, 24))
	}
	put(1, now.Add(-time.Hour))
	put(2, now.AddDate(1, 0, 0))
	put(3, now)
	put(4, now.Add(10*time.Minute))
	put(5, now.Add(2*time.Hour))
	heads, err := replay.ReadHeads(t.Context(), store, journalName)
	runtest.Check(t, err)
	var got []uint64
	for i := range heads {
		h, err := receipt.ReadHead(&heads[i])
		runtest.Check(t, err)
		got = append(got, h.Head.Position)
	}
	if diff := cmp.Diff([]uint64{2, 4, 5}, got); diff != "" { // the first is a year older than the second
		t.Errorf("kept positions (-want +got):\n%s", diff)
	}
}
