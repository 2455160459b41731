package accounts

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func at(text string) time.Time {
	out, err := time.Parse("2006-01-02T15", text)
	if err != nil {
		panic(err)
	}
	return out
}

func TestCoverTakesTheLongestParts(t *testing.T) {
	cases := map[string]struct {
		from, to, until string
		longest         Span
		want            []string
	}{
		"a month":                        {"2026-10-01T00", "2026-11-01T00", "2026-12-01T00", Month, []string{"month-2026-10"}},
		"a month by day":                 {"2026-10-30T00", "2026-11-01T00", "2026-12-01T00", Day, []string{"day-2026-10-30", "day-2026-10-31"}},
		"a day by hour":                  {"2026-10-31T22", "2026-11-01T00", "2026-12-01T00", Hour, []string{"hour-2026-10-31t22", "hour-2026-10-31t23"}},
		"from an hour to a month":        {"2026-10-30T23", "2026-12-01T00", "2026-12-01T00", Month, []string{"hour-2026-10-30t23", "day-2026-10-31", "month-2026-11"}},
		"what has not begun is left out": {"2026-11-01T00", "2027-03-01T00", "2026-12-05T10", Month, []string{"month-2026-11", "month-2026-12"}},
		"nothing":                        {"2026-11-01T00", "2026-11-01T00", "2026-12-05T10", Month, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, part := range Cover(at(tc.from), at(tc.to), at(tc.until), tc.longest) {
				got = append(got, part.Name())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := Cover(at("2026-10-01T00"), at("2026-10-02T00").Add(time.Minute), at("2026-12-01T00"), Month); got != nil {
		t.Errorf("a time that ends within an hour is covered by %v", got)
	}
}

func TestCoverLeavesNoGapAndCountsNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := begin.Truncate(time.Hour).Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "from")) * time.Hour)
		to := from.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "hours")) * time.Hour)
		longest := rapid.SampledFrom(Spans).Draw(t, "longest")
		next := from
		for _, part := range Cover(from, to, to, longest) {
			if !part.Start.Equal(next) || part.Span == Month && longest != Month || part.Span == Day && longest == Hour {
				t.Fatalf("%s follows %s, at most %s", part.Name(), next, longest)
			}
			next = part.End()
		}
		if !next.Equal(to) {
			t.Fatalf("covered until %s of %s", next, to)
		}
	})
}
