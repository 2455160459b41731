package tracing

import (
	"testing"
	"time"
)

// Whoever reads the documentation can compute the ID of a trace, so it must not change.
func TestTraceFollowsFromJournalAndName(t *testing.T) {
	// printf journal-1/res-abc | sha256sum | cut -c-32
	if got, want := TraceOf("journal-1", "res-abc").String(), "42f2ac3df2125f485339589d915c3cd8"; got != want {
		t.Errorf("trace %s, want %s", got, want)
	}
}

func TestSpansThatDifferHaveDifferentIDs(t *testing.T) {
	span := Span{Name: "deliver", Journal: "j", Reservation: "r", Placement: 1, Began: time.Unix(100, 0), Ended: time.Unix(101, 0)}
	other := map[string]func(*Span){
		"name":        func(s *Span) { s.Name = "acknowledge" },
		"journal":     func(s *Span) { s.Journal = "k" },
		"reservation": func(s *Span) { s.Reservation = "q" },
		"placement":   func(s *Span) { s.Placement = 11 },
		"beginning":   func(s *Span) { s.Began = s.Began.Add(time.Millisecond) },
		"root":        func(s *Span) { s.Name = Root },
	}
	seen := map[SpanID]string{span.ID(): "unchanged"}
	for what, change := range other {
		changed := span
		change(&changed)
		if before, known := seen[changed.ID()]; known {
			t.Errorf("the spans %q and %q have the same ID", what, before)
		}
		seen[changed.ID()] = what
	}
	again := span
	if again.Ended = again.Ended.Add(time.Second); again.ID() != span.ID() {
		t.Error("the ID depends on when the span ended: sent again, it would be another span")
	}
}

func TestIDOfARootDependsOnNothingButItsTrace(t *testing.T) {
	a := Span{Name: Root, Journal: "j", Reservation: "r", Began: time.Unix(1, 0)}
	b := Span{Name: Root, Journal: "j", Reservation: "r", Began: time.Unix(2, 0)}
	if a.ID() != b.ID() || a.ID() != RootOf(TraceOf("j", "r")) {
		t.Error("agents could not know the ID of the root")
	}
}
