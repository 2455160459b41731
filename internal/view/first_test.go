package view

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFirstKeepsWhatComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "values")
		most := rapid.IntRange(0, 8).Draw(t, "most")
		f := first[int]{most: most, compare: cmp.Compare[int]}
		for _, v := range values {
			f.add(v)
		}
		want := slices.Sorted(slices.Values(values))
		if most > 0 {
			want = want[:min(most, len(want))]
		}
		if got := f.sorted(); !slices.Equal(got, want) {
			t.Fatalf("kept %v, want %v", got, want)
		}
	})
}
