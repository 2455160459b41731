package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// deaf answers the first report with an error and accepts the others.
type deaf struct {
	err   error
	heard int
}

func (d *deaf) ReportStatus(context.Context, string, *v1.StatusReport) error {
	d.heard++
	if d.heard == 1 {
		return d.err
	}
	return nil
}

func TestReportIsRepeatedUntilTheBrokerAcceptsIt(t *testing.T) {
	cases := map[string]struct {
		answer error
		want   int
	}{
		"taken at once":                           {want: 1},
		"the broker is away":                      {answer: fmt.Errorf("%w: down", transport.ErrUnreachable), want: 2},
		"the broker is busy":                      {answer: fault.New(fault.TooManyRequests, "later"), want: 2},
		"the cluster is denied":                   {answer: fault.New(fault.ClusterDenied, "denied"), want: 2},
		"the cluster is not approved":             {answer: fault.New(fault.ClusterNotApproved, "not yet"), want: 2},
		"its certificate is no good":              {answer: fault.New(fault.Forbidden, "expired"), want: 2},
		"the broker knows it better":              {answer: fault.New(fault.Conflict, "it is gone"), want: 1},
		"the broker knows nothing of it any more": {answer: fault.New(fault.NotFound, "unknown"), want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker := &deaf{err: tc.answer}
				reports := Reports{Outbox: startOutbox(t), Reporter: broker, Role: v1.StatusReportRoleProvider, Log: logr.Discard()}
				reports.ReportState("res-1", 1, v1.StatusReportStateGone, "", "", nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if broker.heard != tc.want || !reports.IsReceived("res-1", 1, v1.StatusReportStateGone) {
					t.Errorf("sent %d times, want %d; settled: %v", broker.heard, tc.want, reports.IsReceived("res-1", 1, v1.StatusReportStateGone))
				}
			})
		})
	}
}

func TestReportIsCutBetweenRunes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := &reader{}
		reports := Reports{Outbox: startOutbox(t), Reporter: broker, Role: v1.StatusReportRoleProvider, Log: logr.Discard()}
		reports.ReportState("res-1", 1, v1.StatusReportStateRefused, "Refused", "a"+strings.Repeat("é", maxReport), nil)
		synctest.Wait()
		if !utf8.ValidString(broker.message) || len(broker.message) > maxReport || len(broker.message) < maxReport-4 {
			t.Errorf("the broker got %d bytes: %q", len(broker.message), broker.message)
		}
	})
}

// reader keeps the message of the last report.
type reader struct{ message string }

func (r *reader) ReportStatus(_ context.Context, _ string, report *v1.StatusReport) error {
	r.message = report.Message
	return nil
}
