package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// fixedCosts is a CostSource with fixed rows, for requesters with the given names. It accepts the group "tenant" only if
// the period is not "hour".
type fixedCosts struct{ requesters []string }

func (f fixedCosts) rows(t time.Time) (rows []view.AccountRow) {
	for i, requester := range f.requesters {
		r := view.AccountRow{From: t, To: t.Add(time.Hour), Tenant: "blue", Requester: requester, Provider: "paris", Currency: "EUR", Resource: corev1.ResourceCPU}
		r.Held, r.Used, r.Money = money.Over(int64(4000), 3600), money.Over(int64(1000*(i%4)), 3600), money.Once(money.Price(800_000_000))
		r.Dearest = view.Comparison{Cost: money.Once(money.Price(1_000_000_000)), Paid: r.Money}
		gpu := r
		gpu.Resource, gpu.Held, gpu.Used = "nvidia.com/gpu", money.Over(int64(2), 3600), money.Sum{}
		gpu.Unobserved = gpu.Held
		rows = append(rows, r, gpu)
	}
	return rows
}

func (f fixedCosts) Cost(_ context.Context, q CostQuery) (*view.Cost, error) {
	if q.Period == "hour" {
		return nil, errors.New(`the accounts are in ConfigMaps of namespace "liqo-resource-broker", which you may not read: ask for get and list on them`)
	}
	by := view.CostBy(q.By)
	if by == "" {
		by = view.CostByRequester
	}
	span := view.CostSpan{From: time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC), Until: noon}
	if q.Period == "day" {
		span.Split = func(at time.Time) time.Time { return at.Truncate(24 * time.Hour) }
	}
	return view.NewCost(f.rows(noon.Add(-time.Hour)), by, span, nil), nil
}

func (f fixedCosts) Focus(_ context.Context, q CostQuery) ([]byte, error) {
	if q.Period == "hour" {
		return nil, errors.New("the broker no longer keeps 2026-11-01T00")
	}
	var out bytes.Buffer
	err := view.WriteFocus(&out, f.rows(noon.Add(-time.Hour)), "b2f1")
	return out.Bytes(), err
}

// costServer returns a server for a console with costs of some requesters.
func costServer(t *testing.T, requesters ...string) *httptest.Server {
	t.Helper()
	s := siteOf(&fixedObjects{view: brokerSnapshot(t)})
	s.costs = fixedCosts{requesters}
	server := httptest.NewTLSServer(newHandler(s))
	t.Cleanup(server.Close)
	return server
}

func TestCostsArePagedInAFixedOrder(t *testing.T) {
	var requesters []string
	for i := range rowsPerPage {
		requesters = append(requesters, fmt.Sprintf("requester-%03d", i))
	}
	server := costServer(t, requesters...)
	_, first := get(t, server, "/costs?by=requester", "admin")
	_, second := get(t, server, "/costs?by=requester&after=100", "admin")
	for name, page := range map[string]struct{ body, has, lacks string }{
		"first": {first, "requester-049", "requester-050"}, "second": {second, "requester-050", "requester-049"},
	} {
		if !strings.Contains(page.body, page.has) || strings.Contains(page.body, page.lacks) {
			t.Errorf("the %s page must show %s and not %s", name, page.has, page.lacks)
		}
	}
	if next := `href="/costs?after=100&amp;by=requester"`; !strings.Contains(first, next) || strings.Contains(second, "Next page") {
		t.Errorf("the first page must lead to the second, and the second to none:\n%s", first)
	}
}

func TestFocusDatasetIsDownloaded(t *testing.T) {
	server := costServer(t, "rome")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+focusPath+"?from=2026-11-01", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer admin")
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if kind, disposition := response.Header.Get("Content-Type"), response.Header.Get("Content-Disposition"); kind != "text/csv; charset=utf-8" || !strings.HasPrefix(disposition, "attachment") {
		t.Errorf("the dataset is %q, %q", kind, disposition)
	}
	if status, body := get(t, server, focusPath, "admin"); status != http.StatusOK || !strings.HasPrefix(body, "BilledCost,") || !strings.Contains(body, "rome/blue") {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body := get(t, server, focusPath+"?period=hour", "admin"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no longer keeps 2026-11-01T00") {
		t.Errorf("a dataset that is not kept: status %d: %s", status, body)
	}
}

// Costs are shown neither to strangers nor by a console that does not read them with the user's rights.
func TestCostsAreShownOnlyWithTheUsersRights(t *testing.T) {
	personal, inCluster := costServer(t, "rome"), serve(t, &fixedObjects{view: brokerSnapshot(t)})
	for _, path := range []string{"/costs", focusPath} {
		if status, body := get(t, personal, path, "stranger"); status != http.StatusUnauthorized || strings.Contains(body, "paris") {
			t.Errorf("%s for a stranger: status %d", path, status)
		}
	}
	if status, _ := get(t, inCluster, focusPath, "admin"); status != http.StatusNotFound {
		t.Errorf("the console in the cluster sends a dataset: status %d", status)
	}
	if status, _ := get(t, serve(t, &fixedObjects{view: memberSnapshot(t)}), "/costs", "admin"); status != http.StatusNotFound {
		t.Errorf("a member has a page of costs: status %d", status)
	}
}
