package trail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail/trailtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func readTrail(t *testing.T) (*journal.Kept, []trail.Record) {
	t.Helper()
	server := journaltest.NewServer()
	trailtest.Write(t, server.Client(), "test", trailtest.Events())
	kept, err := journal.ReadKept(t.Context(), server.Client(), "test", journal.Options{})
	runtest.Check(t, err)
	records, err := trail.Read(t.Context(), kept)
	runtest.Check(t, err)
	return kept, records
}

func TestRecordsNameWhoDidWhatBetweenWhichClusters(t *testing.T) {
	_, records := readTrail(t)
	var got []string
	for _, r := range records {
		got = append(got, fmt.Sprintf("%d %s by %s: %s%s-%s %s %d", r.Position, r.Kind, r.Actor, r.Cluster, r.Requester, r.Provider, r.Reservation, r.Placement))
	}
	want := []string{
		"1 open by the broker: -  0",
		"2 offer by rome: rome-  0",
		"3 offer by paris: paris-  0",
		"4 reserve by alice, as reported by rome: rome-paris res-a 1",
		"5 acknowledge by paris: rome-paris res-a 1",
		"6 nodeReady by rome: rome-paris res-a 1",
		"7 end by the broker (deadlines): rome-paris res-a 1",
		"8 consumerGone by rome: rome-paris res-a 1",
		"9 providerGone by paris: rome-paris res-a 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if d := records[3].Decision; d == nil || len(d.Candidates) != 2 || d.Rejected["Stale"] != 1 {
		t.Errorf("the decision is %+v", d)
	}
}

// If two kinds used the same field name with different types, every log and export of the journal
// would fail.
func TestEveryKindOfRecordIsDescribed(t *testing.T) {
	for _, kind := range ledger.Kinds() {
		t.Run(kind, func(t *testing.T) {
			event := &ledger.Event{}
			runtest.Check(t, event.UnmarshalJSON(fmt.Appendf(nil, `{"at":"2030-01-01T08:00:00Z",%q:{}}`, kind)))
			fillScalars(reflect.ValueOf(event.Change).Elem())
			data, err := event.MarshalJSON()
			runtest.Check(t, err)
			r, err := trail.Describe(&journal.Entry{Position: 1, Kind: "record", Data: data}, nil)
			if err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if r.Kind != kind || r.Actor == "" {
				t.Errorf("%s is described as %+v", data, r)
			}
		})
	}
}

// fillScalars sets the strings, numbers and booleans of a struct and of its embedded structs, so
// that the JSON contains every field.
func fillScalars(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			if v.Type().Field(i).Anonymous {
				fillScalars(f)
			}
		case reflect.String:
			f.SetString("text")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int32, reflect.Int64:
			f.SetInt(1)
		case reflect.Uint64:
			f.SetUint(1)
		}
	}
}

func TestProviderIsTheActorOfItsReports(t *testing.T) {
	for name, change := range map[string]ledger.Change{
		"a refused change":    &ledger.Settle{PlacementRef: ledger.PlacementRef{Name: "res-a", Placement: 1}, Generation: 1, Refused: "no room"},
		"a refused placement": &ledger.Withdraw{PlacementRef: ledger.PlacementRef{Name: "res-a", Placement: 1}, Reason: "no room", Refused: true},
		"its amounts":         &ledger.Restate{PlacementRef: ledger.PlacementRef{Name: "res-a", Placement: 1}},
	} {
		data, err := ledger.Event{At: trailtest.Start, Change: change}.MarshalJSON()
		runtest.Check(t, err)
		r, err := trail.Describe(&journal.Entry{Position: 1, Kind: "record", Data: data}, romeOnParis{})
		if err != nil || r.Actor != "paris" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// romeOnParis is a Context that returns requester rome and provider paris for every reservation.
type romeOnParis struct{}

func (romeOnParis) Parties(_ string, placement int32) (requester, provider string, number int32) {
	return "rome", "paris", placement
}

func TestFilterSelectsRecords(t *testing.T) {
	_, records := readTrail(t)
	at := func(minute int) time.Time { return trailtest.Start.Add(time.Duration(minute) * time.Minute) }
	for name, tc := range map[string]struct {
		filter trail.Filter
		want   []uint64
	}{
		"by a part of the actor":     {trail.Filter{Actor: "alice"}, []uint64{4}},
		"by the actor as recorded":   {trail.Filter{Actor: "rome:alice"}, []uint64{4}},
		"by cluster":                 {trail.Filter{Cluster: "paris"}, []uint64{3, 4, 5, 6, 7, 8, 9}},
		"by cluster and kind":        {trail.Filter{Cluster: "paris", Kinds: []string{"offer", "end"}}, []uint64{3, 7}},
		"by reservation and actor":   {trail.Filter{Reservation: "res-a", Actor: "paris"}, []uint64{5, 9}},
		"since a time, inclusive":    {trail.Filter{Since: at(6)}, []uint64{8, 9}},
		"until a time, inclusive":    {trail.Filter{Until: at(1)}, []uint64{2, 3}},
		"in a time without records":  {trail.Filter{Since: at(60)}, nil},
		"the journal's own, by kind": {trail.Filter{Kinds: []string{"open"}}, []uint64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []uint64
			for _, r := range tc.filter.Select(records) {
				got = append(got, r.Position)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("positions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordsAfterACheckpointHaveTheirParties(t *testing.T) {
	server := journaltest.NewServer()
	now := trailtest.Start
	server.Now = func() time.Time { return now }
	events := trailtest.Events()
	opts := journal.Options{SegmentBytes: 1, RetainFor: time.Hour}
	state := ledger.New()
	trailtest.Write(t, server.Client(), "test", events[:4])
	for i := range events[:4] {
		runtest.Check(t, state.Apply(uint64(i+2), &events[i]))
	}
	text, err := state.Freeze().Bytes()
	runtest.Check(t, err)
	j, _, err := journal.Open(t.Context(), server.Client(), "test", opts)
	runtest.Check(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- j.Run(ctx) }()
	now = now.Add(3 * time.Hour)
	runtest.Check(t, j.Checkpoint(t.Context(), append([]byte("{}\n"), text...), 5, now))
	cancel()
	<-done //nolint:errcheck // it ends with the context
	trailtest.Write(t, server.Client(), "test", events[4:])
	kept, err := journal.ReadKept(t.Context(), server.Client(), "test", opts)
	runtest.Check(t, err)
	records, err := trail.Read(t.Context(), kept)
	runtest.Check(t, err)
	if kept.After == 0 || len(records) == 0 {
		t.Fatalf("%d records after position %d: nothing was trimmed", len(records), kept.After)
	}
	for _, r := range records {
		if r.Reservation != "" && r.Position > 5 && (r.Requester != "rome" || r.Provider != "paris") {
			t.Errorf("record %d (%s) is between %q and %q", r.Position, r.Kind, r.Requester, r.Provider)
		}
	}
}

func TestEveryEditOfAnExportIsFound(t *testing.T) {
	kept, records := readTrail(t)
	var export bytes.Buffer
	if _, err := trail.WriteExport(&export, kept.ID, records, trailtest.Start, nil); err != nil {
		t.Fatal(err)
	}
	verified, places, err := trail.CheckExport(bytes.NewReader(export.Bytes()))
	runtest.Check(t, err)
	want := trail.Checked{Verified: journal.Verified{ID: kept.ID, After: 0, Head: 9, Segments: 1, Records: 9}, Before: records[0].Prev}
	if diff := cmp.Diff(want, verified); diff != "" || places[9] != records[8].Hash {
		t.Errorf("verified (-want +got):\n%s", diff)
	}
	lines := strings.SplitAfter(export.String(), "\n")
	for name, edited := range map[string]string{
		"a line is missing":       strings.Join(slices.Delete(slices.Clone(lines), 4, 5), ""),
		"the first is missing":    strings.Join(lines[1:], ""),
		"the end is missing":      strings.Join(lines[:len(lines)-2], ""),
		"the end is empty":        strings.Join(lines[:len(lines)-2], "") + `{"end":null}`,
		"two lines are exchanged": strings.Join([]string{lines[1], lines[0]}, "") + strings.Join(lines[2:], ""),
		"a line follows the end":  export.String() + lines[0],
		"the actor is another":    strings.Replace(export.String(), `"actor":"alice`, `"actor":"carol`, 1),
		"the provider is another": strings.Replace(export.String(), `"provider":"paris"`, `"provider":"milan"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			if edited == export.String() {
				t.Fatal("nothing was edited")
			}
			if _, _, err := trail.CheckExport(strings.NewReader(edited)); err == nil {
				t.Error("it was not found")
			}
		})
	}
	for what, renamed := range map[string]func(*trail.Record){
		"requester": func(r *trail.Record) { r.Requester = "milan" },
		"provider":  func(r *trail.Record) { r.Provider = "milan" },
	} {
		forged := slices.Clone(records)
		renamed(&forged[6]) // the record of the end names only the reservation
		var export bytes.Buffer
		if _, err := trail.WriteExport(&export, kept.ID, forged, trailtest.Start, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := trail.CheckExport(&export); err == nil {
			t.Errorf("another %s with a sum that was computed anew was not found", what)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := export.Bytes()
	end := bytes.LastIndex(text, []byte(`"at":"`)) // the time of the export, which no hash covers
	for range 1000 {
		edited := slices.Clone(text)
		i := random.IntN(end)
		edited[i] ^= byte(1 + random.IntN(255))
		if _, _, err := trail.CheckExport(bytes.NewReader(edited)); err == nil && !bytes.Contains(text[:i], []byte(`{"end":`)) {
			t.Fatalf("byte %d was changed from %q to %q unseen", i, text[i], edited[i])
		}
	}
}

func TestReservationsThatEndedAreListedAfterTheBookForgotThem(t *testing.T) {
	server := journaltest.NewServer()
	events := trailtest.Events()
	end := events[len(events)-1].At
	trailtest.Write(t, server.Client(), "test", append(events, ledger.Event{At: end.Add(time.Hour), Change: &ledger.Forget{Names: []string{"res-a"}}}))
	read, err := replay.ReadEnded(t.Context(), server.Client(), "test")
	runtest.Check(t, err)
	got := trail.DescribeEnded(read.Rows)
	want := []trail.Ended{{
		Name: "res-a", Requester: "rome", Providers: []string{"paris"}, Resources: corev1.ResourceList{"cpu": resource.MustParse("2")},
		RequestedBy: "alice, as reported by rome", EndedBy: "the broker (deadlines)", Reason: "Expired", Price: "not priced",
		CreatedAt: trailtest.Start.Add(2 * time.Minute), EndedAt: trailtest.Start.Add(5 * time.Minute),
		Placements: []history.Placement{{Provider: "paris", AssignedAt: trailtest.Start.Add(2 * time.Minute), AcknowledgedAt: trailtest.Start.Add(3 * time.Minute)}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ended reservations (-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		filter trail.Filter
		want   int
	}{
		"by who ended it":          {trail.Filter{Actor: "deadlines"}, 1},
		"by a provider":            {trail.Filter{Cluster: "paris"}, 1},
		"by a cluster not in it":   {trail.Filter{Cluster: "oslo"}, 0},
		"since after its end":      {trail.Filter{Since: end}, 0},
		"until before its end":     {trail.Filter{Until: trailtest.Start}, 0},
		"by a name that is not it": {trail.Filter{Reservation: "res-b"}, 0},
	} {
		if got := tc.filter.SelectEnded(got); len(got) != tc.want {
			t.Errorf("%s: %d, want %d", name, len(got), tc.want)
		}
	}
}

func TestUnfinishedExportIsFinishedAfterItsLastCompleteLine(t *testing.T) {
	kept, records := readTrail(t)
	var lines [][]byte
	for i := range records {
		line, err := trail.Line(&records[i])
		runtest.Check(t, err)
		lines = append(lines, line)
	}
	edited := bytes.Replace(lines[3], []byte("rome"), []byte("oslo"), 1)
	for name, tc := range map[string]struct {
		text    []byte
		last    uint64
		damaged bool
	}{
		"nothing":               {nil, 0, false},
		"whole lines":           {bytes.Join(lines, nil), 9, false},
		"a torn line":           {slices.Concat(lines[0], lines[1], lines[2][:20]), 2, false},
		"zeros after a crash":   {slices.Concat(lines[0], make([]byte, 4096)), 1, false},
		"an edited line":        {slices.Concat(lines[0], lines[1], lines[2], edited, lines[4]), 3, true},
		"a line that is missed": {slices.Concat(lines[0], lines[2]), 1, true},
		"an empty end":          {slices.Concat(lines[0], []byte("{\"end\":null}\n")), 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			end, err := trail.Finish(&out, bytes.NewReader(tc.text), kept.ID, trailtest.Start, nil)
			if errors.Is(err, trail.ErrDamaged) != tc.damaged || !tc.damaged && err != nil {
				t.Fatal(err)
			}
			if tc.last == 0 {
				if end != nil {
					t.Fatalf("the end is %+v", end)
				}
				return
			}
			verified, _, err := trail.CheckExport(&out)
			if err != nil || verified.ID != kept.ID || verified.Head != tc.last || end.Position != tc.last {
				t.Fatalf("the export has %+v, %v", verified, err)
			}
		})
	}
}
