package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func timeBefore(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func TestLoginKeepsTheTokenInAnEncryptedCookie(t *testing.T) {
	server := serve(t, &fixedObjects{view: brokerSnapshot(t)})
	post := func(path string, form url.Values) *http.Response {
		response, err := server.Client().PostForm(server.URL+path, form)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		return response
	}
	response := post("/login", url.Values{"token": {" Bearer admin\n"}, "to": {"/queue?x=1"}}) //nolint:bodyclose // post closes it
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/queue?x=1" {
		t.Fatalf("status %d to %q", response.StatusCode, response.Header.Get("Location"))
	}
	cookie := response.Cookies()[0]
	if strings.Contains(cookie.Value, "admin") || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("cookie %v", cookie)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/queue", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(cookie)
	inside, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inside.Body.Close() }()
	if inside.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %s", inside.Status)
	}

	for text, want := range map[string]int{"": 400, "two words": 400, strings.Repeat("x", maxToken+1): 400, "stranger": 401} {
		if got := post("/login", url.Values{"token": {text}}); got.StatusCode != want || len(got.Cookies()) > 0 { //nolint:bodyclose // post closes it
			t.Errorf("token %.20q: status %d, want %d, cookies %v", text, got.StatusCode, want, got.Cookies())
		}
	}
	for _, to := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "/\t/evil.example", "/logout", ""} {
		if got := post("/login", url.Values{"token": {"admin"}, "to": {to}}); got.Header.Get("Location") != "/" { //nolint:bodyclose // post closes it
			t.Errorf("login to %q leads to %q", to, got.Header.Get("Location"))
		}
	}
}

// failingReviews is a reviewer whose API server does not answer.
type failingReviews struct{ namedUsers }

func (failingReviews) identify(ctx context.Context, _ string) (*authenticationv1.UserInfo, error) {
	return nil, errors.Join(errors.New("dial tcp 10.96.0.1:443: connection refused"), ctx.Err())
}

func TestStrangersNeitherLearnOfTheClusterNorFillTheLog(t *testing.T) {
	site, logged := siteOf(&fixedObjects{view: brokerSnapshot(t)}), 0
	site.reviews, site.log = failingReviews{}, funcr.New(func(string, string) { logged++ }, funcr.Options{})
	handler := newHandler(site)
	for _, target := range []string{"GET /queue", "GET /live/queue", "POST /login"} {
		method, path, _ := strings.Cut(target, " ")
		for _, gone := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("token=x"))
			request.Header.Set("Authorization", "Bearer x")
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if logged = 0; gone {
				cancel()
			}
			handler.ServeHTTP(recorder, request)
			cancel()
			if recorder.Code != http.StatusServiceUnavailable || strings.Contains(recorder.Body.String(), "10.96") {
				t.Errorf("%s: status %d: %s", target, recorder.Code, recorder.Body)
			}
			if gone && logged > 0 {
				t.Errorf("%s: a closed connection is logged", target)
			}
		}
	}
}

func TestCookiesEndAndCannotBeChanged(t *testing.T) {
	now, key := noon, []byte(strings.Repeat("k", 32))
	s := &sessions{key: func() ([]byte, error) { return key, nil }, now: func() time.Time { return now }}
	cookie, err := s.cookieFor("token")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.tokenIn(cookie); got != "token" {
		t.Fatalf("token %q", got)
	}
	for i := range cookie.Value {
		changed := *cookie
		changed.Value = cookie.Value[:i] + map[bool]string{true: "B", false: "A"}[cookie.Value[i] == 'A'] + cookie.Value[i+1:]
		if got := s.tokenIn(&changed); got != "" {
			t.Fatalf("with another character %d the cookie is still valid", i)
		}
	}
	now = noon.Add(sessionKept)
	if got := s.tokenIn(cookie); got != "" {
		t.Error("the cookie is valid after its end")
	}
	now, key = noon, []byte(strings.Repeat("o", 32))
	if got := s.tokenIn(cookie); got != "" {
		t.Error("the cookie is valid after the key was replaced")
	}
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	server := serve(t, &fixedObjects{view: brokerSnapshot(t)})
	for _, path := range []string{"/login", "/logout"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader("token=admin"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "https://evil.example")
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s from another site: %s", path, response.Status)
		}
	}
}

// Only tokens identify users. Headers such as those of a proxy could come from anyone.
func TestHeadersThatNameUsersAreIgnored(t *testing.T) {
	server := serve(t, &fixedObjects{view: brokerSnapshot(t)})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"X-Forwarded-User", "X-Remote-User", "X-Forwarded-Access-Token", "Impersonate-User"} {
		request.Header.Set(name, "admin")
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %s", response.Status)
	}
}
