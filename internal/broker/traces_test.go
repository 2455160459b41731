package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
)

// traceSpans restarts the broker, and lets it and all later brokers record spans. It returns a
// function that returns the spans recorded since its last call, in words.
func (f *fleet) traceSpans() (take func() []string) {
	var spans []string
	f.recordSpan = func(s tracing.Span) {
		line := fmt.Sprintf("%s/%d of %s at %q took %s", s.Name, s.Placement, s.Requester, s.Provider, s.Ended.Sub(s.Began))
		if s.Failure != "" {
			line += ", failed: " + s.Failure
		}
		if s.Journal != f.session.journal.ID() {
			line += ", in journal " + s.Journal
		}
		spans = append(spans, line)
	}
	f.kill()
	return func() []string {
		out := slices.Clone(spans)
		spans = nil
		return out
	}
}

func wantSpans(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestSpansFollowAReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		spans := f.traceSpans()
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("4", "8Gi"))
		time.Sleep(2 * time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(3 * time.Second)
		for range 2 { // a repeated report must not make a second span
			f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		}
		wantSpans(t, spans(),
			`acknowledge/1 of rome at "paris" took 2s`,
			`deliver/1 of rome at "paris" took 5s`,
			`reservation/0 of rome at "" took 5s`)

		f.kill() // the replay of the journal must not make spans
		f.release("rome", r.Name)
		time.Sleep(7 * time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		wantSpans(t, spans(), `release/0 of rome at "" took 7s`)
	})
}

func TestForgottenClusterEndsReleases(t *testing.T) {
	inFleet(t, func(f *fleet) {
		spans := f.traceSpans()
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi")
		r := f.runs(f.reserve("rome", "request-1", request("4", "8Gi")))
		f.release("rome", r.Name)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		spans()
		time.Sleep(10 * time.Minute) // until paris is Inactive
		synctest.Wait()
		runtest.Check(t, f.ForgetCluster(context.Background(), "paris"))
		wantSpans(t, spans(), `release/0 of rome at "" took 10m0s`)
	})
}

func TestSpansOfPlacementsThatFail(t *testing.T) {
	inFleet(t, func(f *fleet) {
		spans := f.traceSpans()
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", busy)
		r := f.reserve("rome", "request-1", request("1", "1Gi"))
		time.Sleep(time.Second)
		err := f.ReportStatus(context.Background(), "paris", r.Name, &v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateRefused, Reason: "madeUpByParis",
		})
		runtest.Check(t, err)
		wantSpans(t, spans(), `deliver/1 of rome at "paris" took 1s, failed: madeUpByParis`)
		time.Sleep(2 * time.Second)
		f.release("rome", r.Name)
		wantSpans(t, spans(),
			`deliver/2 of rome at "berlin" took 2s, failed: Released`,
			`reservation/0 of rome at "" took 3s, failed: Released`)
	})
}

func TestSpansOfARequestThatWaits(t *testing.T) {
	inFleet(t, func(f *fleet) {
		spans := f.traceSpans()
		f.advertise("rome", "1", "1Gi")
		f.advertise("milan", "1", "1Gi")
		f.offerByHand("paris", 8, 64)
		first := f.reserve("milan", "request-1", asked("8"))
		f.reserve("rome", "request-2", waiting("8", "1Gi", priority(0)))
		f.mustReport("milan", first, 1, consumer, v1.StatusReportStateReady)
		spans()
		time.Sleep(10 * time.Second)
		f.release("milan", first.Name)
		f.mustReport("milan", first, 1, consumer, v1.StatusReportStateGone)
		synctest.Wait()
		got := spans()
		if want := `queue/0 of rome at "" took 10s`; !slices.Contains(got, want) {
			t.Errorf("spans %q, want %q among them", got, want)
		}
	})
}
