package brokerconfig

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestHowLongAReservationIsHeldByDefault(t *testing.T) {
	of := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	cases := map[string]struct {
		ttl, longest *metav1.Duration
		want         time.Duration
		wantErr      string
	}{
		"an hour":                       {want: time.Hour},
		"what is set":                   {ttl: of(2 * time.Hour), want: 2 * time.Hour},
		"no longer than the maximum":    {longest: of(time.Minute), want: time.Minute},
		"as long as the maximum":        {ttl: of(time.Hour), longest: of(time.Hour), want: time.Hour},
		"set to more than the maximum":  {ttl: of(time.Hour), longest: of(time.Minute), wantErr: "defaultTTL: 1h0m0s is longer than maxDuration 1m0s"},
		"an hour, the maximum is a day": {longest: of(24 * time.Hour), want: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config, err := ConfigOf(&brokerv1alpha1.BrokerConfigSpec{DefaultTTL: tc.ttl, MaxDuration: tc.longest})
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
