package wire

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestToAmounts(t *testing.T) {
	cases := map[string]struct {
		in      v1.Amounts
		want    quantity.Amounts
		wantErr []string
	}{
		"nothing stays nothing": {},
		"every unit becomes a whole number": {
			in:   v1.Amounts{"cpu": "500m", "memory": "256Mi", "nvidia.com/gpu": "2", "ephemeral-storage": "1e9"},
			want: quantity.Amounts{"cpu": 500, "memory": 256 << 20, "nvidia.com/gpu": 2, "ephemeral-storage": 1e9},
		},
		"the first bad resource by name is the one reported": {
			in:      v1.Amounts{"memory": "lots", "cpu": "two", "pods": "5"},
			wantErr: []string{`"cpu"`, `"two"`},
		},
		"a negative amount is refused":           {in: v1.Amounts{"cpu": "-1"}, wantErr: []string{`"cpu"`, `"-1"`}},
		"half a device is refused":               {in: v1.Amounts{"nvidia.com/gpu": "500m"}, wantErr: []string{`"nvidia.com/gpu"`, `"500m"`}},
		"a huge exponent is refused at once":     {in: v1.Amounts{"memory": "1e2147483647"}, wantErr: []string{`"memory"`, `"1e2147483647"`}},
		"an endless mantissa is refused":         {in: v1.Amounts{"memory": strings.Repeat("9", 100000)}, wantErr: []string{`"memory"`}},
		"more than can be counted is refused":    {in: v1.Amounts{"memory": "99999Ei"}, wantErr: []string{`"memory"`}},
		"what is not a resource name is refused": {in: v1.Amounts{"../etc": "1"}, wantErr: []string{`"../etc"`}},
		"an empty value is refused":              {in: v1.Amounts{"cpu": ""}, wantErr: []string{`"cpu"`, `""`}},
		"more resources than any node has are refused": {
			in: func() v1.Amounts {
				many := v1.Amounts{}
				for i := range maxResources + 1 {
					many["example.com/r"+strings.Repeat("x", i)] = "1"
				}
				return many
			}(),
			wantErr: []string{"65 resources"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ToAmounts(tc.in)
			if (err != nil) != (tc.wantErr != nil) {
				t.Fatalf("error: %v, wanted one: %v", err, tc.wantErr != nil)
			}
			for _, part := range tc.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %s", err, part)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAmountsSurviveTheRoundTrip(t *testing.T) {
	in := quantity.Amounts{"cpu": 1500, "memory": 3 << 30, "pods": 0, "nvidia.com/gpu": 1}
	got, err := ToAmounts(FromAmounts(in))
	runtest.Check(t, err)
	if diff := cmp.Diff(in, got); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

func TestExpiresAt(t *testing.T) {
	received := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seconds := func(f float64) *float64 { return &f }
	cases := map[string]struct {
		remaining *float64
		want      *metav1.Time
	}{
		"a renewed reservation has no end":     {remaining: nil, want: nil},
		"time runs from receipt":               {remaining: seconds(90), want: &metav1.Time{Time: received.Add(90 * time.Second)}},
		"fractions are rounded":                {remaining: seconds(59.7), want: &metav1.Time{Time: received.Add(time.Minute)}},
		"what is over ends now":                {remaining: seconds(-5), want: &metav1.Time{Time: received}},
		"a nonsense figure is cut to a bound":  {remaining: seconds(math.MaxFloat64), want: &metav1.Time{Time: received.Add(maxRemaining)}},
		"not a number is cut to the same":      {remaining: seconds(math.NaN()), want: &metav1.Time{Time: received.Add(maxRemaining)}},
		"minus infinity ends now, not earlier": {remaining: seconds(math.Inf(-1)), want: &metav1.Time{Time: received}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ExpiresAt(tc.remaining, received)); diff != "" {
				t.Errorf("expiry (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstructions(t *testing.T) {
	received := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	minute := 60.0
	in := v1.Instruction{
		Reservation: "res-abcdefghij", Placement: 2, State: v1.InstructionStateHold,
		ConsumerID: "rome", ProviderID: "paris", ProviderEndpoint: "https://paris:6443",
		Resources: v1.Amounts{"cpu": "2"}, RemainingSeconds: &minute,
		PodShapes: []v1.PodShape{{Count: 2, Resources: v1.Amounts{"cpu": "1"}}}, NodeSelector: map[string]string{"gpu": "a100"},
	}
	until := &metav1.Time{Time: received.Add(time.Minute)}
	resources := corev1.ResourceList{"cpu": resource.MustParse("2")}

	consumer, err := ToReservationInstruction(&in, received)
	runtest.Check(t, err)
	if diff := cmp.Diff(agentv1alpha1.ReservationInstructionSpec{
		ReservationName: "res-abcdefghij", Placement: 2, TargetClusterID: "paris",
		TargetClusterEndpoint: "https://paris:6443", Resources: resources, ExpiresAt: until,
	}, consumer); diff != "" {
		t.Errorf("consumer (-want +got):\n%s", diff)
	}

	in.State = v1.InstructionStateEnded
	provider, err := ToProviderInstruction(&in, received)
	runtest.Check(t, err)
	if diff := cmp.Diff(agentv1alpha1.ProviderInstructionSpec{
		ReservationName: "res-abcdefghij", Placement: 2, RequesterClusterID: "rome",
		Resources: resources, ExpiresAt: until, Release: true, Unpeer: true,
		PodShapes:    []brokerv1alpha1.PodShape{{Count: 2, Resources: brokerv1alpha1.PodResources{"cpu": resource.MustParse("1")}}},
		NodeSelector: map[string]brokerv1alpha1.LabelValue{"gpu": "a100"},
	}, provider); diff != "" {
		t.Errorf("provider (-want +got):\n%s", diff)
	}

	in.Resources = v1.Amounts{"cpu": "many"}
	if _, err := ToProviderInstruction(&in, received); err == nil || !strings.Contains(err.Error(), `"res-abcdefghij-2"`) {
		t.Errorf("error %v does not name the instruction", err)
	}
}

func TestAdvertisementsAreConvertedCompletely(t *testing.T) {
	spec := &agentv1alpha1.AdvertisementSpec{
		Cost: &brokerv1alpha1.Cost{
			CPUCost: "0.04", MemoryCost: "0.005", StorageCost: "0.1", EgressCost: "0.2", Currency: "EUR",
			ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{"nvidia.com/gpu": "0.95"},
		},
		Topology:   &brokerv1alpha1.Topology{Region: "eu-west", Zone: "a"},
		NodeShapes: []brokerv1alpha1.NodeShape{{Count: 3, Free: corev1.ResourceList{"cpu": resource.MustParse("4")}}},
	}
	got := FromAdvertisement(spec)
	cost := v1.Cost{
		CPUCost: "0.04", MemoryCost: "0.005", StorageCost: "0.1", EgressCost: "0.2", Currency: "EUR",
		ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{"nvidia.com/gpu": "0.95"},
	}
	if diff := cmp.Diff(cost, got.Cost); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v1.Topology{Region: "eu-west", Zone: "a"}, got.Topology); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1.NodeShape{{Count: 3, Free: v1.Amounts{"cpu": "4"}}}, got.NodeShapes, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
	none := FromAdvertisement(&agentv1alpha1.AdvertisementSpec{})
	if none.Topology != (v1.Topology{}) || none.NodeShapes != nil || !reflect.DeepEqual(none.Cost, v1.Cost{}) {
		t.Errorf("an advertisement without cost, topology and shapes became %+v", none)
	}
}

func TestCandidatesFitTheSchema(t *testing.T) {
	in := make([]v1.Candidate, 12)
	for i := range in {
		in[i] = v1.Candidate{ClusterID: "c", Message: strings.Repeat("é", 600), Reason: strings.Repeat("r", 70)}
	}
	got := ClipCandidates(in)
	if len(got) != maxCandidates {
		t.Fatalf("%d candidates", len(got))
	}
	if n := len(got[0].Message); n > maxMessage || n < maxMessage-4 {
		t.Errorf("message of %d bytes", n)
	}
	if n := len(got[0].Reason); n > maxReason {
		t.Errorf("reason of %d bytes", n)
	}
	few := []v1.Candidate{{
		ClusterID: "paris", Score: "71.50", Criteria: map[string]string{"cost": "40.00"}, Reason: "Fits", Message: "it fits",
		PricePerHour: "0.04", Currency: "EUR",
	}}
	if diff := cmp.Diff(few, ClipCandidates(few)); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
}
