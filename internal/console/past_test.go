package console

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// fixedPast is a PastSource that knows only how the cluster was two hours ago, when it had one reservation.
type fixedPast struct{ snapshot *view.Snapshot }

func (p fixedPast) At(_ context.Context, text string) (*view.Snapshot, error) {
	if text != "2h" {
		return nil, errors.New("the journal has no record of " + text)
	}
	return p.snapshot, nil
}

func pastServer(t *testing.T) *httptest.Server {
	t.Helper()
	past := brokerSnapshot(t)
	past.At, past.Record, past.Broker.Config, past.Broker.Reservations = noon.Add(-2*time.Hour), 42, nil, past.Broker.Reservations[:1]
	site := siteOf(&fixedObjects{view: brokerSnapshot(t)})
	site.past, site.actions = fixedPast{past}, true
	server := httptest.NewTLSServer(newHandler(site))
	t.Cleanup(server.Close)
	return server
}

func TestPagesOfThePastKeepTheirTimeAndChangeNothing(t *testing.T) {
	server := pastServer(t)
	for _, path := range []string{"/?at=2h", "/clusters?at=2h", "/reservations?at=2h", "/queue?at=2h", "/requesters?at=2h", "/objects/reservation/default/served?at=2h", "/objects/clusteradvertisement/default/paris?at=2h"} {
		_, body := get(t, server, path, "admin")
		for _, text := range []string{"As it was on 2026-11-20 10:00:00 UTC, replayed from the journal up to record 42", `href="/queue?at=2h"`} {
			if !strings.Contains(body, text) {
				t.Errorf("%s without %q", path, text)
			}
		}
		for _, text := range []string{">waits</a>", "/actions/", "hx-sse", "kind: Reservation", "paris holds it", "kubectl get", "broker queue --at"} {
			if strings.Contains(body, text) {
				t.Errorf("%s contains %q", path, text)
			}
		}
		if strings.HasPrefix(path, "/reservations") && !strings.Contains(body, `href="/objects/reservation/default/served?at=2h"`) {
			t.Errorf("links of %s lead to the present:\n%s", path, body)
		}
	}
	if _, body := get(t, server, "/queue", "admin"); strings.Index(body, `name="at"`) < strings.Index(body, "</main>") {
		t.Error("the field for a time is in the part that streams replace, or missing")
	}
	if _, body := get(t, server, "/queue?at=%3Cimg%20src=x%3E", "admin"); strings.Contains(body, "<img") {
		t.Error("the time is not escaped")
	}
}
