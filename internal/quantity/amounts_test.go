package quantity

import (
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

func TestArithmetic(t *testing.T) {
	a := Amounts{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 8}
	b := Amounts{corev1.ResourceCPU: 1500, gpu: 2}
	huge := Amounts{corev1.ResourceMemory: math.MaxInt64}
	lowest := Amounts{corev1.ResourceMemory: math.MinInt64}

	cases := map[string]struct{ got, want Amounts }{
		"addition joins the resources of both": {
			a.Add(b), Amounts{corev1.ResourceCPU: 5500, corev1.ResourceMemory: 8, gpu: 2},
		},
		"subtraction may go below zero": {
			a.Sub(b), Amounts{corev1.ResourceCPU: 2500, corev1.ResourceMemory: 8, gpu: -2},
		},
		"the larger of both is taken for each resource": {
			a.Max(b), Amounts{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 8, gpu: 2},
		},
		"the larger of a shortfall and nothing is zero": {
			Amounts{gpu: -2}.Max(nil), Amounts{gpu: 0},
		},
		"a limit cuts what it names and leaves the rest": {
			a.AtMost(Amounts{corev1.ResourceCPU: 1000, gpu: 1}),
			Amounts{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 8},
		},
		"a limit above the amount changes nothing": {a.AtMost(Amounts{corev1.ResourceCPU: 9000}), a},
		"multiplication scales every resource": {
			a.Times(3), Amounts{corev1.ResourceCPU: 12000, corev1.ResourceMemory: 24},
		},
		"two of the largest accepted amounts add up without wrapping": {
			Amounts{gpu: Limit}.Add(Amounts{gpu: Limit}), Amounts{gpu: math.MaxInt64},
		},
		"a sum above the largest integer saturates":        {huge.Add(huge), huge},
		"a difference above the largest integer saturates": {huge.Sub(lowest), huge},
		"a sum below the smallest integer saturates":       {lowest.Add(lowest), lowest},
		"a difference below the smallest saturates":        {lowest.Sub(huge), lowest},
		"nothing minus the smallest integer saturates":     {Amounts(nil).Sub(lowest), huge},
		"a product above the largest integer saturates":    {huge.Times(2), huge},
		"a product below the smallest integer saturates":   {lowest.Times(2), lowest},
		"a multiple of zero times is zero":                 {huge.Times(0), Amounts{corev1.ResourceMemory: 0}},
		"the nil map can be added to":                      {Amounts(nil).Add(b), b},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFits(t *testing.T) {
	free := Amounts{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 1024}
	cases := map[string]struct {
		request Amounts
		want    Shortage
		wantOK  bool
	}{
		"an exact fit fits":              {request: free.Clone(), wantOK: true},
		"an empty request fits":          {wantOK: true},
		"zero of an unknown resource":    {request: Amounts{gpu: 0}, wantOK: true},
		"one unit too many does not fit": {request: Amounts{corev1.ResourceCPU: 4001}, want: Shortage{corev1.ResourceCPU, 4001, 4000}},
		"a resource that is not there":   {request: Amounts{gpu: 1}, want: Shortage{gpu, 1, 0}},
		"the first shortage by name is returned": {
			request: Amounts{gpu: 1, corev1.ResourceMemory: 2048, corev1.ResourceCPU: 5000},
			want:    Shortage{corev1.ResourceCPU, 5000, 4000},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := Fits(tc.request, free)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.wantOK {
				t.Errorf("ok %v, want %v (-want +got):\n%s", ok, tc.wantOK, diff)
			}
		})
	}
}

func TestZeroAndEqual(t *testing.T) {
	if !(Amounts{gpu: 0}).IsZero() || !Amounts(nil).IsZero() || (Amounts{gpu: -1}).IsZero() {
		t.Error("an amount is zero when every resource is")
	}
	a := Amounts{corev1.ResourceCPU: 1, gpu: 0}
	if !a.Equal(Amounts{corev1.ResourceCPU: 1}) || !(Amounts{corev1.ResourceCPU: 1}).Equal(a) {
		t.Error("a resource at zero equals one that is not named")
	}
	if a.Equal(Amounts{corev1.ResourceCPU: 1, gpu: 1}) || a.Equal(nil) {
		t.Error("different amounts are not equal")
	}
	clone := a.Clone()
	clone[gpu] = 7
	if a[gpu] != 0 {
		t.Error("a clone shares nothing")
	}
}

func anyAmounts(largest int64) *rapid.Generator[Amounts] {
	return rapid.Custom(func(t *rapid.T) Amounts {
		m := rapid.MapOf(
			rapid.SampledFrom([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, gpu}),
			rapid.Int64Range(0, largest),
		).Draw(t, "amounts")
		return m
	})
}

func TestAmountsObeyArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAmounts(Limit/4).Draw(t, "a")
		b := anyAmounts(Limit/4).Draw(t, "b")
		c := anyAmounts(Limit/4).Draw(t, "c")
		if !a.Add(b).Equal(b.Add(a)) {
			t.Fatal("a + b is b + a")
		}
		if !a.Add(b).Add(c).Equal(a.Add(b.Add(c))) {
			t.Fatal("(a + b) + c is a + (b + c)")
		}
		if !a.Add(b).Sub(b).Equal(a) {
			t.Fatal("a + b − b is a")
		}
		if _, ok := Fits(a, a.Max(b)); !ok {
			t.Fatal("a fits into what is at least a")
		}
		_, fits := Fits(a, b)
		negative := false
		for _, v := range b.Sub(a) {
			negative = negative || v < 0
		}
		if fits == negative {
			t.Fatal("a fits into b exactly when b − a is nowhere negative")
		}
	})
}

func TestArithmeticSaturatesAtInt64Bounds(t *testing.T) {
	saturated := func(exact *big.Int) int64 {
		switch {
		case exact.IsInt64():
			return exact.Int64()
		case exact.Sign() < 0:
			return math.MinInt64
		}
		return math.MaxInt64
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Int64().Draw(t, "x"), rapid.Int64().Draw(t, "y")
		times := rapid.Int64Range(0, math.MaxInt64).Draw(t, "times")
		bigX, bigY := big.NewInt(x), big.NewInt(y)
		if got, want := addSaturating(x, y), saturated(new(big.Int).Add(bigX, bigY)); got != want {
			t.Fatalf("%d + %d gave %d, want %d", x, y, got, want)
		}
		if got, want := subSaturating(x, y), saturated(new(big.Int).Sub(bigX, bigY)); got != want {
			t.Fatalf("%d − %d gave %d, want %d", x, y, got, want)
		}
		if got, want := mulSaturating(x, times), saturated(new(big.Int).Mul(bigX, big.NewInt(times))); got != want {
			t.Fatalf("%d × %d gave %d, want %d", x, times, got, want)
		}
	})
}
