package decision

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWeightsAreValidated(t *testing.T) {
	cases := map[string]struct {
		weights Weights
		wantErr string
	}{
		"nil is the default":                {weights: nil},
		"they need not add up to a hundred": {weights: Weights{Availability: 1, Cost: 2}},
		"some may be zero":                  {weights: Weights{Availability: 0, Cost: 2}},
		"not all may be zero":               {Weights{Availability: 0}, "invalid weights: no criterion counts: give one a weight above 0"},
		"an empty map counts nothing":       {Weights{}, "invalid weights: no criterion counts: give one a weight above 0"},
		"a negative one is refused":         {Weights{Cost: -1}, `invalid weights: "cost" is -1: give a percentage from 0 to 100`},
		"more than a hundred is refused":    {Weights{Cost: 101}, `invalid weights: "cost" is 101: give a percentage from 0 to 100`},
		"an unknown criterion is refused":   {Weights{"colour": 1}, `invalid weights: no criterion is called "colour": choose availability, cost, latency, reliability`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := "", tc.weights.Validate()
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, got); diff != "" || (err != nil && !errors.Is(err, ErrWeights)) {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPresets(t *testing.T) {
	for name, want := range map[string]Weights{
		"availability":   {Availability: 100},
		"balanced":       {Availability: 70, Cost: 30, Reliability: 15},
		"multi-criteria": {Availability: 70, Cost: 20, Latency: 5, Reliability: 5},
	} {
		got, err := Preset(name)
		if err != nil || got.Validate() != nil {
			t.Fatal(err, got.Validate())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		got[Cost] = 99
		if again, _ := Preset(name); again[Cost] == 99 {
			t.Error("a preset is a copy")
		}
	}
	if _, err := Preset("cheapest"); !errors.Is(err, ErrWeights) {
		t.Errorf("got %v for a preset that does not exist", err)
	}
}
