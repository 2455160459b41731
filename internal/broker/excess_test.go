package broker

import (
	"context"
	"strings"
	"testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestExcessIsReportedByProvidersThatAcknowledgeOnly(t *testing.T) {
	excess := func(pods int32, amounts v1.Amounts) *v1.Excess { return &v1.Excess{Pods: pods, Resources: amounts} }
	tooMany := v1.Amounts{}
	for _, letter := range "abcdefghijklmnopq" {
		tooMany["example.com/"+string(letter)] = "1"
	}
	cases := map[string]struct {
		from   string
		report v1.StatusReport
		want   string
	}{
		"a provider that acknowledges may": {"paris", v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Excess: excess(3, v1.Amounts{"cpu": "2"}),
		}, ""},
		"a provider that is done may not": {"paris", v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateGone, Excess: excess(3, v1.Amounts{"cpu": "2"}),
		}, "a Provider that reports Gone cannot"},
		"a consumer may not": {"rome", v1.StatusReport{
			Placement: 1, Role: consumer, State: v1.StatusReportStateReady, Excess: excess(3, v1.Amounts{"cpu": "2"}),
		}, "a Consumer that reports Ready cannot"},
		"an answer to a change may not": {"paris", v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Change: 1, Excess: excess(3, v1.Amounts{"cpu": "2"}),
		}, "without change"},
		"fewer than no pods": {"paris", v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Excess: excess(-1, nil),
		}, "excess.pods: -1"},
		"seventeen resources": {"paris", v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Excess: excess(1, tooMany),
		}, "17 resources"},
		"a quantity below zero": {"paris", v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Excess: excess(1, v1.Amounts{"cpu": "-2"}),
		}, "excess.resources"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("rome", "4", "8Gi")
				f.advertise("paris", "16", "64Gi")
				r := f.reserve("rome", "request-1", request("2", "4Gi"))
				err := f.ReportStatus(context.Background(), tc.from, r.Name, &tc.report)
				switch {
				case tc.want == "" && err != nil:
					t.Errorf("got %v, want no error", err)
				case tc.want != "" && (fault.ReasonOf(err) != fault.Invalid || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("got %v, want Invalid with %q", err, tc.want)
				}
			})
		})
	}
}

func TestRequesterLearnsOfExcessBeforeTheFirstEviction(t *testing.T) {
	for pods, want := range map[int32]string{
		0: "; paris evicts pods that exceed the grant by cpu=1: run no more",
		2: "; paris evicted 2 pods that exceeded the grant by cpu=1: run no more",
	} {
		p := &ledger.Placement{Provider: "paris", Excess: &ledger.Excess{Pods: pods, Amounts: quantity.Amounts{"cpu": 1000}}}
		if got := views.DescribeExcess(p); !strings.HasPrefix(got, want) {
			t.Errorf("%d pods: got %q, want it to begin with %q", pods, got, want)
		}
	}
}
