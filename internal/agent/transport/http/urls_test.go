package http_test

import (
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
)

func TestBrokerURLsAreChecked(t *testing.T) {
	s := newSite(t)
	files := s.files(t, s.clientDir(t, "rome"))
	for name, tc := range map[string]struct {
		urls []string
		want string
	}{
		"one":                    {urls: []string{"https://broker.example:8443"}},
		"two":                    {urls: []string{"https://a:8443", "https://b"}},
		"slash behind":           {urls: []string{"https://broker.example/"}},
		"address":                {urls: []string{"https://[::1]:8443"}},
		"none":                   {want: "not set"},
		"empty":                  {urls: []string{""}, want: `scheme is ""`},
		"no scheme":              {urls: []string{"broker.example:8443"}, want: "scheme"},
		"plain HTTP":             {urls: []string{"http://broker.example"}, want: `scheme is "http"`},
		"no host":                {urls: []string{"https://"}, want: "no host"},
		"port alone":             {urls: []string{"https://:8443"}, want: "no host"},
		"path":                   {urls: []string{"https://broker.example/api"}, want: `path "/api"`},
		"query":                  {urls: []string{"https://broker.example?x=1"}, want: "query"},
		"not a URL":              {urls: []string{"https://%zz"}, want: "not a URL"},
		"password is not shown":  {urls: []string{"https://u:canary@broker.example"}, want: "user"},
		"second of two is wrong": {urls: []string{"https://a", "http://b"}, want: "http://b"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := http.New(http.Options{URLs: tc.urls, Files: files})
			if (err != nil) != (tc.want != "") {
				t.Fatalf("New: %v; want an error: %v", err, tc.want != "")
			}
			if err == nil {
				return
			}
			if text := err.Error(); !strings.Contains(text, "--broker-url") || !strings.Contains(text, tc.want) || strings.Contains(text, "canary") {
				t.Errorf("error %q; want it to name --broker-url and say %q", text, tc.want)
			}
		})
	}
	if _, err := http.New(http.Options{URLs: []string{"https://a"}}); err == nil || !strings.Contains(err.Error(), "--broker-cert-path") {
		t.Errorf("New without certificates: %v; want it to name --broker-cert-path", err)
	}
}
