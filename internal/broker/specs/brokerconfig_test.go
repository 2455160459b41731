package specs

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestDefaultTTLKeepsWithinMaxDuration(t *testing.T) {
	of := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	cases := map[string]struct {
		ttl, longest *metav1.Duration
		want         time.Duration
		wantErr      string
	}{
		"an hour by default":                    {want: time.Hour},
		"the set value":                         {ttl: of(2 * time.Hour), want: 2 * time.Hour},
		"no longer than the maximum":            {longest: of(time.Minute), want: time.Minute},
		"as long as the maximum":                {ttl: of(time.Hour), longest: of(time.Hour), want: time.Hour},
		"set to more than the maximum":          {ttl: of(time.Hour), longest: of(time.Minute), wantErr: "defaultTTL: 1h0m0s is longer than maxDuration 1m0s"},
		"an hour although the maximum is a day": {longest: of(24 * time.Hour), want: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config, err := ReadConfig(&brokerv1alpha1.BrokerConfigSpec{DefaultTTL: tc.ttl, MaxDuration: tc.longest})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || config.DefaultTTL != tc.want {
				t.Errorf("got %s and %v, want %s", config.DefaultTTL, err, tc.want)
			}
		})
	}
}

func TestTimeoutsAreReadAndDefaultOneByOne(t *testing.T) {
	of := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	defaults := settings.DefaultTimeouts()
	readiness, network, silence, healing, notReady := defaults, defaults, defaults, defaults, defaults
	readiness.Placement.Ready = 10 * time.Minute
	network.Placement.Network = 5 * time.Minute
	silence.Silence, silence.Healing = 5*time.Minute, 5*time.Minute
	healing.Healing = time.Hour
	notReady.NotReady = time.Hour
	for name, tc := range map[string]struct {
		set  *brokerv1alpha1.Timeouts
		want term.Timeouts
	}{
		"nothing":                      {nil, defaults},
		"an empty list":                {&brokerv1alpha1.Timeouts{}, defaults},
		"one of them":                  {&brokerv1alpha1.Timeouts{Readiness: of(10 * time.Minute)}, readiness},
		"slow load balancers":          {&brokerv1alpha1.Timeouts{Network: of(5 * time.Minute)}, network},
		"a silence that is longer":     {&brokerv1alpha1.Timeouts{Silence: of(5 * time.Minute)}, silence},
		"patience with lost nodes":     {&brokerv1alpha1.Timeouts{NotReady: of(time.Hour)}, notReady},
		"patience with silent members": {&brokerv1alpha1.Timeouts{Healing: of(time.Hour)}, healing},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := ReadConfig(&brokerv1alpha1.BrokerConfigSpec{Timeouts: tc.set})
			if err != nil || config.Timeouts != tc.want {
				t.Errorf("got %+v and %v, want %+v", config.Timeouts, err, tc.want)
			}
		})
	}
}

func TestOverSubscriptionCeilingsAreRead(t *testing.T) {
	config, err := ReadConfig(&brokerv1alpha1.BrokerConfigSpec{OverSubscriptionCeilings: brokerv1alpha1.OverSubscription{"cpu": "1.5", "memory": "1"}})
	if want := (quantity.Ratios{"cpu": 150}); err != nil || !maps.Equal(config.OverSubscription, want) {
		t.Errorf("got %v and %v, want %v", config.OverSubscription, err, want)
	}
	_, err = ReadConfig(&brokerv1alpha1.BrokerConfigSpec{OverSubscriptionCeilings: brokerv1alpha1.OverSubscription{"nvidia.com/gpu": "2"}})
	if err == nil || !strings.Contains(err.Error(), `overSubscriptionCeilings: "nvidia.com/gpu" cannot be over-subscribed`) {
		t.Errorf("over-subscription of devices: %v", err)
	}
}

func TestExchangeRatesAreReadWholeOrRefused(t *testing.T) {
	cases := map[string]struct {
		table   brokerv1alpha1.ExchangeRates
		wantErr string
	}{
		"two rates":                {table: brokerv1alpha1.ExchangeRates{Date: "2026-11-20", Base: "EUR", Rates: map[string]brokerv1alpha1.Price{"USD": "1.1", "CHF": "0.94"}}},
		"an impossible date":       {brokerv1alpha1.ExchangeRates{Date: "2026-02-30", Base: "EUR"}, `exchangeRates: date: "2026-02-30" is not a date`},
		"a rate of zero":           {brokerv1alpha1.ExchangeRates{Date: "2026-11-20", Base: "EUR", Rates: map[string]brokerv1alpha1.Price{"USD": "0"}}, `exchangeRates: the rate of "USD" must be above zero`},
		"a rate that is no number": {brokerv1alpha1.ExchangeRates{Date: "2026-11-20", Base: "EUR", Rates: map[string]brokerv1alpha1.Price{"USD": "1,1"}}, "exchangeRates: rates[USD]"},
		"a rate for the base":      {brokerv1alpha1.ExchangeRates{Date: "2026-11-20", Base: "EUR", Rates: map[string]brokerv1alpha1.Price{"EUR": "1"}}, `"EUR" is the base`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config, err := ReadConfig(&brokerv1alpha1.BrokerConfigSpec{ExchangeRates: &tc.table})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil || config.Rates.Date != "2026-11-20" || config.Rates.Per["USD"].String() != "1.1" || config.Rates.Per["CHF"].String() != "0.94" {
				t.Errorf("got %+v and %v", config.Rates, err)
			}
		})
	}
}
