package queue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

func cpus(n int64) quantity.Amounts { return quantity.Amounts{corev1.ResourceCPU: n} }

func acceptAny(string) bool { return true }

// lineOf returns a line to which the waiters were added in the given order. A waiter without a
// class gets one of its own.
func lineOf(waiters ...Waiter) *Line {
	l := &Line{}
	for i, w := range waiters {
		w.Rank.Position = uint64(i + 1)
		if w.Class == "" {
			w.Class = w.ID
		}
		l.Add(w)
	}
	return l
}

func (l *Line) inOrder() (out []string) {
	l.All(func(id string) bool { out = append(out, id); return true })
	return out
}

func TestFirstPrefersPriorityThenArrival(t *testing.T) {
	small := func(id string) Waiter { return Waiter{ID: id, Needs: cpus(1)} }
	large := func(id string) Waiter { return Waiter{ID: id, Needs: cpus(8)} }
	urgent := func(w Waiter) Waiter { w.Rank.Priority = 100; return w }
	tests := map[string]struct {
		line   *Line
		free   quantity.Amounts
		accept func(string) bool
		want   string
	}{
		"an empty line serves nobody":            {line: &Line{}, free: cpus(8)},
		"the earlier waiter first":               {line: lineOf(small("a"), small("b")), free: cpus(8), want: "a"},
		"higher priority before earlier arrival": {line: lineOf(small("a"), urgent(small("b"))), free: cpus(8), want: "b"},
		"a later, smaller waiter if the first does not fit": {
			line: lineOf(large("a"), small("b")), free: cpus(4), want: "b",
		},
		"a lower priority if the higher one does not fit": {
			line: lineOf(small("a"), urgent(large("b"))), free: cpus(4), want: "a",
		},
		"the first waiter if it fits exactly": {line: lineOf(large("a"), small("b")), free: cpus(8), want: "a"},
		"nobody if none fits":                 {line: lineOf(large("a"), large("b")), free: cpus(7)},
		"nobody who needs a resource that is absent": {
			line: lineOf(Waiter{ID: "a", Needs: quantity.Amounts{gpu: 1}}), free: cpus(8),
		},
		"a waiter that needs nothing of a scarce resource": {
			line: lineOf(Waiter{ID: "a", Needs: quantity.Amounts{gpu: 1}}, small("b")), free: quantity.Amounts{corev1.ResourceCPU: -4, gpu: 1}, want: "a",
		},
		"the next waiter that accept takes": {
			line: lineOf(small("a"), small("b")), free: cpus(8), accept: func(id string) bool { return id != "a" }, want: "b",
		},
		"no member of a class whose head is rejected": {
			line:   lineOf(Waiter{ID: "a", Class: "same", Needs: cpus(1)}, Waiter{ID: "b", Class: "same", Needs: cpus(1)}),
			free:   cpus(8),
			accept: func(id string) bool { return id != "a" },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.accept == nil {
				test.accept = acceptAny
			}
			if got := test.line.First(test.free, test.accept); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// list is a naive line that is sorted again for every question.
type list []Waiter

func (l list) sorted() []string {
	slices.SortFunc(l, func(a, b Waiter) int {
		if a.Rank.Before(b.Rank) {
			return -1
		}
		return 1
	})
	var out []string
	for _, w := range l {
		out = append(out, w.ID)
	}
	return out
}

func (l list) first(least int32, free quantity.Amounts, accept func(string) bool) string {
	l.sorted()
	refused := map[string]bool{}
	for _, w := range l {
		if _, ok := quantity.Fits(w.Needs, free); !ok || refused[w.Class] || w.Rank.Priority < least {
			continue
		}
		if accept(w.ID) {
			return w.ID
		}
		refused[w.Class] = true
	}
	return ""
}

func anyAmounts(t *rapid.T) quantity.Amounts {
	out := quantity.Amounts{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, gpu} {
		if rapid.Bool().Draw(t, "named") {
			out[name] = rapid.Int64Range(-1, 5).Draw(t, string(name))
		}
	}
	return out
}

func TestLineMatchesSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			line  Line
			plain list
			next  uint64
		)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				next++
				needs := anyAmounts(t)
				w := Waiter{
					ID: fmt.Sprint("w", next), Needs: needs, Class: fmt.Sprint(needs, rapid.IntRange(0, 1).Draw(t, "wish")),
					Rank: Rank{rapid.Int32Range(0, 2).Draw(t, "priority"), next},
				}
				line.Add(w)
				plain = append(plain, w)
			},
			"remove": func(t *rapid.T) {
				id := fmt.Sprint("w", rapid.Uint64Range(0, next).Draw(t, "who"))
				before := len(plain)
				plain = slices.DeleteFunc(plain, func(w Waiter) bool { return w.ID == id })
				if got, want := line.Remove(id), len(plain) < before; got != want {
					t.Fatalf("%s was there: %v, want %v", id, got, want)
				}
			},
			"first": func(t *rapid.T) {
				free, parity := anyAmounts(t), rapid.IntRange(0, 2).Draw(t, "who is taken")
				accept := func(id string) bool { return parity == 2 || int(id[len(id)-1])%2 == parity }
				least := rapid.Int32Range(0, 3).Draw(t, "least")
				if got, want := line.FirstOf(least, free, accept), plain.first(least, free, accept); got != want {
					t.Fatalf("first of %d for %v is %q, want %q of %+v", least, free, got, want, plain)
				}
			},
			"": func(t *rapid.T) {
				want := plain.sorted()
				if diff := cmp.Diff(want, line.inOrder()); diff != "" || line.Len() != len(want) {
					t.Fatalf("%d in order (-want +got):\n%s", line.Len(), diff)
				}
				for i, id := range want {
					if got := line.Place(id); got != i+1 {
						t.Fatalf("%s has place %d, want %d", id, got, i+1)
					}
				}
				if line.Place("nobody") != 0 {
					t.Fatal("nobody has a place")
				}
			},
		})
	})
}

// BenchmarkFirst searches 10,000 waiters with different needs.
func BenchmarkFirst(b *testing.B) {
	const waiters = 10_000
	line := &Line{}
	for i := range waiters {
		id := fmt.Sprint("w", i)
		line.Add(Waiter{
			ID: id, Class: id, Rank: Rank{int32(i % 10), uint64(i)},
			Needs: quantity.Amounts{corev1.ResourceCPU: int64(1000 + i), corev1.ResourceMemory: int64(3*waiters-i) << 20},
		})
	}
	for name, free := range map[string]quantity.Amounts{
		"nobody fits": {corev1.ResourceCPU: 999, corev1.ResourceMemory: 1 << 62},
		"one fits":    {corev1.ResourceCPU: 1000 + waiters/2, corev1.ResourceMemory: int64(3*waiters-waiters/2) << 20},
		"all fit":     {corev1.ResourceCPU: 1 << 62, corev1.ResourceMemory: 1 << 62},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				line.First(free, acceptAny)
			}
		})
	}
	b.Run("one leaves and comes back", func(b *testing.B) {
		b.ReportAllocs()
		w := line.waiters["w5000"].Waiter
		for b.Loop() {
			line.Remove(w.ID)
			line.Add(w)
		}
	})
}
