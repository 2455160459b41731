package broker

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// No webhook runs here: the broker itself enforces its bounds, over REST and for Reservation
// objects.
func TestRequestsBeyondTheBoundsAreRefused(t *testing.T) {
	cases := map[string]struct {
		amounts  quantity.Amounts
		duration time.Duration
		want     string
	}{
		"exactly the most":         {amounts: quantity.Amounts{"cpu": 4000, "memory": 1 << 30}, duration: 2 * time.Hour},
		"of what is not bounded":   {amounts: quantity.Amounts{"cpu": 1000, "memory": 32 << 30}},
		"a millicore too much":     {amounts: quantity.Amounts{"cpu": 4001, "memory": 1 << 30}, want: "resources: 4001m of cpu is more than one reservation may ask for: the most is 4, set by BrokerConfig.spec.maxPerReservation"},
		"a second too long":        {amounts: quantity.Amounts{"cpu": 1000, "memory": 1 << 30}, duration: 2*time.Hour + time.Second, want: "duration: 2h0m1s is longer than one reservation may be held: the longest is 2h0m0s"},
		"too much for too long":    {amounts: quantity.Amounts{"cpu": 4001, "memory": 1 << 30}, duration: 3 * time.Hour, want: "in several reservations; duration: 3h0m0s"},
		"no cpu for memory":        {amounts: quantity.Amounts{"cpu": 0, "memory": 1}, want: "cpu must be above zero"},
		"nothing in many words":    {amounts: quantity.Amounts{"cpu": 0, "memory": 0}, want: "above zero"},
		"what no node can have":    {amounts: quantity.Amounts{"cpus": 1}, want: `unknown resource "cpus"`},
		"no cpu beside a GPU":      {amounts: quantity.Amounts{"cpu": 0, "memory": 1 << 30, "nvidia.com/gpu": 1}, want: "cpu must be above zero, for example 500m: a virtual node needs cpu and memory"},
		"a GPU alone":              {amounts: quantity.Amounts{"nvidia.com/gpu": 1}, want: "cpu must be above zero"},
		"cpu alone":                {amounts: quantity.Amounts{"cpu": 1000}, want: "memory must be above zero, for example 256Mi: a virtual node needs cpu and memory"},
		"longer than can be borne": {amounts: quantity.Amounts{"cpu": 1000, "memory": 1 << 30}, duration: requests.LongestDuration + time.Hour, want: "is too long"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi")
				config := settings.Default()
				config.Bounds = requests.Bounds{Amounts: quantity.Amounts{"cpu": 4000}, Duration: 2 * time.Hour}
				f.SetConfig(context.Background(), config)

				body := &v1.ReservationRequest{Resources: v1.Amounts{}, DurationSeconds: int64(tc.duration / time.Second)}
				for name, amount := range tc.amounts {
					body.Resources[string(name)] = quantity.Format(name, amount)
				}
				_, err := f.RequestReservation(context.Background(), "rome", "request-1", body)
				wantInvalid(t, "REST", err, tc.want)
				_, err = f.ReserveObject(context.Background(), requests.Request{Request: ledger.Request{
					Requester: "rome", Amounts: tc.amounts, Duration: tc.duration, Object: &ledger.ObjectRef{Namespace: "default", Name: "r", UID: "1"},
				}})
				wantInvalid(t, "object", err, tc.want)
				if tc.want != "" && f.available("paris") != "16 64Gi" {
					t.Errorf("paris has %s left", f.available("paris"))
				}
			})
		})
	}
}

func wantInvalid(t *testing.T, how string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", how, err)
	case want != "" && (fault.ReasonOf(err) != fault.Invalid || !strings.Contains(err.Error(), want)):
		// In a REST body the duration is called durationSeconds.
		if how == "REST" && fault.ReasonOf(err) == fault.Invalid && strings.Contains(err.Error(), "durationSeconds") {
			return
		}
		t.Errorf("%s: %v, want %q", how, err, want)
	}
}

func TestLoweredBoundsKeepReservations(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		first := f.reserve("rome", "request-1", request("8", "4Gi"))
		config := settings.Default()
		config.Bounds = requests.Bounds{Amounts: quantity.Amounts{"cpu": 1000}}
		f.SetConfig(context.Background(), config)
		if again := f.reserve("rome", "request-1", request("8", "4Gi")); again.Name != first.Name {
			t.Errorf("a repetition got %q, want %q", again.Name, first.Name)
		}
	})
}

func TestOverflowingDurationIsRefused(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		body := request("1", "1Gi")
		body.DurationSeconds = math.MaxInt64
		_, err := f.RequestReservation(context.Background(), "rome", "request-1", body)
		wantInvalid(t, "REST", err, "durationSeconds")
	})
}

func TestBoundsOfAConfiguration(t *testing.T) {
	_, err := requests.BoundsOf(&brokerv1alpha1.BrokerConfigSpec{MaxPerReservation: brokerv1alpha1.ResourceBounds{
		"nvidia.com/gpu": quantity.ToQuantity("cpu", 500),
	}})
	if err == nil || !strings.Contains(err.Error(), "maxPerReservation") {
		t.Errorf("half a GPU: %v", err)
	}
}
