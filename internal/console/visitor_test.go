package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

func TestNamedNamespaceIsShownAmongMany(t *testing.T) {
	objects := largeBroker(t, 2, 3*maxNamespaces)
	for i := range objects.view.Broker.Reservations {
		objects.view.Broker.Reservations[i].Namespace = fmt.Sprintf("tenant-%03d", i)
	}
	server := serve(t, objects)
	for path, shown := range map[string]bool{
		"/reservations": false, "/reservations?namespace=tenant-250": true, "/objects/reservation/tenant-250/reservation-000250": true,
	} {
		if _, body := get(t, server, path, "tenant-250"); strings.Contains(body, "reservation-000250") != shown {
			t.Errorf("%s shows the tenant's reservation: %v, want %v", path, !shown, shown)
		}
	}
	if _, body := get(t, server, "/reservations", "tenant-050"); !strings.Contains(body, "reservation-000050") || strings.Contains(body, "reservation-000051") {
		t.Errorf("tenant-050 sees %s", body)
	}
}

// brokenReviews is a reviewer without API server.
type brokenReviews struct{ namedUsers }

func (brokenReviews) identify(context.Context, string) (*authenticationv1.UserInfo, error) {
	return nil, errors.New("system:serviceaccount:broker may not create tokenreviews")
}

func TestErrorsForStrangersHideTheCause(t *testing.T) {
	s := siteOf(&fixedObjects{view: brokerSnapshot(t)})
	s.reviews = brokenReviews{}
	recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer any")
	newHandler(s).ServeHTTP(recorder, request)
	if body := recorder.Body.String(); recorder.Code != http.StatusServiceUnavailable || strings.Contains(body, "serviceaccount") {
		t.Errorf("status %d: %s", recorder.Code, body)
	}
}

// TestFirstLoadIsSmall counts what a browser loads for a page of the largest list, with styles and scripts.
func TestFirstLoadIsSmall(t *testing.T) {
	const most = 60 << 10
	handler := newHandler(siteOf(largeBroker(t, 2*rowsPerPage, 2*rowsPerPage)))
	load := func(path string) int {
		recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		request.Header.Set("Authorization", "Bearer admin")
		request.Header.Set("Accept-Encoding", "gzip, br")
		handler.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK || recorder.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: status %d, encoding %q", path, recorder.Code, recorder.Header().Get("Content-Encoding"))
		}
		return recorder.Body.Len()
	}
	shared := 0
	for _, name := range []string{"console.css", "htmx-4.0.1.min.js", "hx-sse-4.0.1.min.js", "icon.svg"} {
		shared += load(assetPath + name)
	}
	for _, path := range []string{"/", "/clusters", "/reservations", "/queue", "/reasons"} {
		if size := shared + load(path); size > most {
			t.Errorf("%s loads %d bytes, at most %d are allowed", path, size, most)
		} else {
			t.Logf("%s loads %d bytes", path, size)
		}
	}
}
