package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// endOne lets rome reserve and release capacity of paris, and both confirm.
func (f *fleet) endOne(key string) *v1.Reservation {
	f.t.Helper()
	r := f.reserve("rome", key, onParis("1", "1Gi"))
	f.release("rome", key)
	f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
	f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
	return r
}

// The broker stores the ended reservations that it forgets in batches. It keeps the newest batches,
// and deletes those of a former journal once it has as many of its own.
func TestHistoryKeepsTheNewestBatches(t *testing.T) {
	inFleet(t, func(f *fleet) {
		const more = 3
		f.mu.Lock()
		f.batch = 1
		f.mu.Unlock()
		former := journal.Object{Name: replay.BatchObject(JournalName, "former", 1, 0), Labels: replay.HistoryLabels()}
		if _, err := f.server.Client().Create(context.Background(), former); err != nil {
			t.Fatal(err)
		}
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "8", "16Gi")
		var want []string
		for i := range archive.KeptBatches + more {
			want = append(want, f.endOne(fmt.Sprintf("request-%04d", i)).Name)
			if i == 20 { // ended reservations that are not forgotten yet are in the book, which the next broker reads from the journal
				f.kill()
				f.mu.Lock()
				f.batch = 1
				f.mu.Unlock()
				f.advertise("rome", "1", "1Gi")
				f.advertise("paris", "8", "16Gi")
			}
		}
		read := func() (names []string, missing string) {
			ended, err := replay.ReadEnded(context.Background(), f.server.Client(), JournalName)
			runtest.Check(t, err)
			for _, row := range ended.Rows {
				names = append(names, row.Name)
			}
			slices.Sort(names)
			return names, ended.Missing
		}
		slices.Sort(want)
		if got, _ := read(); !cmp.Equal(want, got) {
			t.Errorf("before they are forgotten, %d ended reservations are read, want %d", len(got), len(want))
		}
		time.Sleep(retain + time.Hour)
		synctest.Wait()
		stored := 0
		for _, obj := range f.server.Objects() {
			if obj.Labels[replay.LabelHistory] != "" {
				stored++
			}
		}
		if stored != archive.KeptBatches {
			t.Errorf("%d batches are stored, want %d", stored, archive.KeptBatches)
		}
		got, missing := read()
		if len(got) != archive.KeptBatches || missing != "" {
			t.Errorf("%d ended reservations are read, want %d; missing: %q", len(got), archive.KeptBatches, missing)
		}
		_, batches, err := replay.VerifyStored(context.Background(), f.server.Client(), JournalName)
		if err != nil || batches.Proved != archive.KeptBatches || len(batches.Wrong)+len(batches.Unproved) > 0 {
			t.Errorf("an audit finds %+v, %v", batches, err)
		}
	})
}
