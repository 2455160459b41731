package quantity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestParseRatios(t *testing.T) {
	tests := map[string]struct {
		texts map[string]string
		want  Ratios
		says  string
	}{
		"none":                      {},
		"one and a half":            {texts: map[string]string{"cpu": "1.5", "memory": "2"}, want: Ratios{"cpu": 150, "memory": 200}},
		"two places":                {texts: map[string]string{"cpu": "1.05"}, want: Ratios{"cpu": 105}},
		"a ratio of one is omitted": {texts: map[string]string{"cpu": "1", "memory": "1.00"}},
		"the most":                  {texts: map[string]string{"pods": "10", "ephemeral-storage": "10.00"}, want: Ratios{"pods": 1000, "ephemeral-storage": 1000}},
		"a ratio below one":         {texts: map[string]string{"cpu": "0.99"}, says: "cpu: \"0.99\" is not a ratio"},
		"a ratio above the highest": {texts: map[string]string{"cpu": "10.01"}, says: "not a ratio"},
		"three places":              {texts: map[string]string{"cpu": "1.125"}, says: "at most two places"},
		"a percentage":              {texts: map[string]string{"cpu": "150%"}, says: "for example 1.5"},
		"an exponent":               {texts: map[string]string{"cpu": "1e0"}, says: "not a ratio"},
		"nothing":                   {texts: map[string]string{"cpu": ""}, says: "not a ratio"},
		"a negative ratio":          {texts: map[string]string{"cpu": "-2"}, says: "not a ratio"},
		"a GPU":                     {texts: map[string]string{"nvidia.com/gpu": "2"}, says: "cannot be over-subscribed: use cpu, memory"},
		"an unknown resource":       {texts: map[string]string{"beds": "2"}, says: "cannot be over-subscribed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRatios(test.texts)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if again, err := ParseRatios(got.Texts()); err != nil || cmp.Diff(got, again) != "" || got.Check() != nil {
				t.Errorf("written and read again %v, %v, %v", again, err, got.Check())
			}
		})
	}
}

func TestStretched(t *testing.T) {
	tests := map[string]struct {
		amounts Amounts
		ratios  Ratios
		want    Amounts
	}{
		"by nothing":                       {Amounts{"cpu": 4000}, nil, Amounts{"cpu": 4000}},
		"exactly":                          {Amounts{"cpu": 8950, "memory": 7}, Ratios{"cpu": 150}, Amounts{"cpu": 13425, "memory": 7}},
		"rounded down":                     {Amounts{"cpu": 333}, Ratios{"cpu": 101}, Amounts{"cpu": 336}},
		"a missing resource stays missing": {Amounts{"cpu": 1}, Ratios{"memory": 200}, Amounts{"cpu": 1}},
		"the result is at most Limit":      {Amounts{"cpu": Limit}, Ratios{"cpu": 1000}, Amounts{"cpu": Limit}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.amounts.Stretched(test.ratios)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRatiosWithinCeilings(t *testing.T) {
	offered := Ratios{corev1.ResourceCPU: 150, corev1.ResourceMemory: 120}
	tests := map[string]struct{ ceilings, want Ratios }{
		"no ceiling means ratio one":                     {nil, nil},
		"a lower ceiling wins":                           {Ratios{"cpu": 120}, Ratios{"cpu": 120}},
		"a higher ceiling changes nothing":               {Ratios{"cpu": 900, "memory": 110, "pods": 200}, Ratios{"cpu": 150, "memory": 110}},
		"the ceiling of another resource does not apply": {Ratios{"pods": 200}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, offered.Within(test.ceilings)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
