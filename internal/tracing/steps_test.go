package tracing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStepsBecomeSpansWhenTheyAreOver(t *testing.T) {
	var got []Span
	journal := ""
	steps := NewSteps(func() string { return journal }, func(s Span) { got = append(got, s) })
	began := time.Unix(1000, 0)
	note := func(placement int32, name string, after time.Duration) {
		steps.Note(Span{Reservation: "res-a", Placement: placement, Provider: "paris"}, name, began.Add(after))
	}
	note(1, "peer", 0)
	note(2, "peer", time.Second)
	note(1, "peer", 2*time.Second)
	note(1, "set up node", 3*time.Second) // the journal is not known yet
	journal = "j"
	note(1, "", 5*time.Second)
	note(1, "", 6*time.Second)
	note(2, "drain and remove", 7*time.Second)

	span := func(name string, placement int32, from, to time.Duration) Span {
		return Span{
			Name: name, Journal: "j", Reservation: "res-a", Placement: placement, Provider: "paris",
			Began: began.Add(from), Ended: began.Add(to),
		}
	}
	want := []Span{span("set up node", 1, 3*time.Second, 5*time.Second), span("peer", 2, time.Second, 7*time.Second)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if len(steps.steps) != 1 {
		t.Errorf("%d steps are kept, want only that of placement 2", len(steps.steps))
	}
}

func TestNoStepsCostNothing(t *testing.T) {
	var none *Steps
	span := Span{Reservation: "res-a", Placement: 1}
	if n := testing.AllocsPerRun(100, func() { none.Note(span, "peer", time.Time{}) }); n != 0 {
		t.Errorf("%v allocations without a collector", n)
	}
}
