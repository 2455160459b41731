package quantity

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestFromResourceList(t *testing.T) {
	cases := map[string]struct {
		resource corev1.ResourceName
		value    string
		want     int64
		wantErr  error
	}{
		"cores become millicores":                 {corev1.ResourceCPU, "4", 4000, nil},
		"millicores stay":                         {corev1.ResourceCPU, "250m", 250, nil},
		"a fraction of a millicore is rounded up": {corev1.ResourceCPU, "100u", 1, nil},
		"gibibytes become bytes":                  {corev1.ResourceMemory, "4Gi", 4 << 30, nil},
		"decimal gigabytes become bytes":          {corev1.ResourceMemory, "4G", 4_000_000_000, nil},
		"a fraction of a byte is rounded up":      {corev1.ResourceMemory, "1500m", 2, nil},
		"a GPU is counted":                        {gpu, "2", 2, nil},
		"huge pages are bytes":                    {corev1.ResourceHugePagesPrefix + "2Mi", "1.5", 2, nil},
		"half a GPU is refused":                   {gpu, "500m", 0, ErrFractional},
		"half a pod is refused":                   {corev1.ResourcePods, "0.5", 0, ErrFractional},
		"zero is kept":                            {corev1.ResourceCPU, "0", 0, nil},
		"a negative amount is refused":            {corev1.ResourceCPU, "-1", 0, ErrNegative},
		"the smallest negative is refused":        {corev1.ResourceMemory, "-1n", 0, ErrNegative},
		"the largest amount of memory":            {corev1.ResourceMemory, "4611686018427387904", Limit, nil},
		"one byte more is refused":                {corev1.ResourceMemory, "4611686018427387905", 0, ErrTooLarge},
		"the largest amount of cpu":               {corev1.ResourceCPU, "4611686018427387904m", Limit, nil},
		"one millicore more is refused":           {corev1.ResourceCPU, "4611686018427387905m", 0, ErrTooLarge},
		"more than an int64 holds is refused":     {corev1.ResourceMemory, "1e40", 0, ErrTooLarge},
		"cpu that overflows as milli is refused":  {corev1.ResourceCPU, "9E", 0, ErrTooLarge},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := FromResourceList(corev1.ResourceList{tc.resource: resource.MustParse(tc.value)})
			if !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if err != nil {
				if got != nil || !strings.Contains(err.Error(), string(tc.resource)) {
					t.Errorf("got %v, error %q should name %q", got, err, tc.resource)
				}
				return
			}
			if diff := cmp.Diff(Amounts{tc.resource: tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromResourceListReturnsFirstErrorByName(t *testing.T) {
	list := corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("-1"),
		corev1.ResourceCPU:    resource.MustParse("-2"),
		gpu:                   resource.MustParse("-3"),
	}
	for range 20 {
		_, err := FromResourceList(list)
		if want := `resource "cpu": "-2" is negative`; err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
}

func TestToResourceListUsesUsualNotation(t *testing.T) {
	for name, byValue := range map[corev1.ResourceName][]string{
		corev1.ResourceCPU:              {"4", "250m", "1500m", "0"},
		corev1.ResourceMemory:           {"4Gi", "512Mi", "1536Mi", "129000001", "0"},
		corev1.ResourceEphemeralStorage: {"10Gi"},
		corev1.ResourcePods:             {"110"},
		gpu:                             {"2"},
	} {
		for _, written := range byValue {
			a, err := FromResourceList(corev1.ResourceList{name: resource.MustParse(written)})
			runtest.Check(t, err)
			q := a.ToResourceList()[name]
			want := resource.MustParse(written)
			if got := q.String(); got != want.String() {
				t.Errorf("%s %s came back as %s", name, written, got)
			}
		}
	}
	if Amounts(nil).ToResourceList() != nil {
		t.Error("nil stays nil")
	}
}

func TestResourceListsSurviveRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAmounts(Limit).Draw(t, "amounts")
		back, err := FromResourceList(a.ToResourceList())
		runtest.Check(t, err)
		if diff := cmp.Diff(a, back); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzFromResourceList(f *testing.F) {
	for _, seed := range []string{"4", "250m", "4Gi", "1.5", "1e40", "-1", "9223372036854775807", "1n", "0.0000001", "4611686018427387905"} {
		f.Add("cpu", seed)
		f.Add("memory", seed)
		f.Add("nvidia.com/gpu", seed)
	}
	// CRDs and the REST API accept no larger exponents: parsing 1e-100000000 takes minutes.
	admitted := regexp.MustCompile(`^[^eE]{0,70}([eE][+-]?[0-9]{1,2})?$`)
	f.Fuzz(func(t *testing.T, name, value string) {
		if !admitted.MatchString(value) {
			return
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return
		}
		resourceName := corev1.ResourceName(name)
		a, err := FromResourceList(corev1.ResourceList{resourceName: q})
		if err != nil {
			return
		}
		v := a[resourceName]
		if v < 0 || v > Limit {
			t.Fatalf("%s %q became %d", name, value, v)
		}
		back := ToQuantity(resourceName, v)
		if back.Cmp(q) < 0 {
			t.Fatalf("%s %q was rounded down to %s", name, value, back.String())
		}
		again, err := FromResourceList(corev1.ResourceList{resourceName: back})
		if err != nil || again[resourceName] != v {
			t.Fatalf("%s %q became %d, then %v, %v", name, value, v, again, err)
		}
	})
}

func TestFormatWritesAmountsAsPeopleDo(t *testing.T) {
	for want, tc := range map[string]struct {
		name   corev1.ResourceName
		amount int64
	}{
		"1000":    {corev1.ResourceCPU, 1_000_000},
		"1500m":   {corev1.ResourceCPU, 1500},
		"-2":      {corev1.ResourceCPU, -2000},
		"2000":    {gpu, 2000},
		"0":       {gpu, 0},
		"4Gi":     {corev1.ResourceMemory, 4 << 30},
		"1000000": {corev1.ResourceMemory, 1_000_000},
	} {
		got := Format(tc.name, tc.amount)
		if got != want {
			t.Errorf("%d of %s is %q, want %q", tc.amount, tc.name, got, want)
		}
		if back, err := FromResource(tc.name, resource.MustParse(got)); tc.amount >= 0 && (err != nil || back != tc.amount) {
			t.Errorf("%q is read as %d, %v, want %d", got, back, err, tc.amount)
		}
	}
}
