package reach

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestServerThatAnswersIsReachable(t *testing.T) {
	silent := func(s *httptest.Server) { s.Config.ErrorLog = log.New(io.Discard, "", 0) }
	quiet := httptest.NewUnstartedServer(http.NotFoundHandler())
	silent(quiet)
	quiet.StartTLS()
	defer quiet.Close()
	picky := httptest.NewUnstartedServer(http.NotFoundHandler())
	picky.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}
	silent(picky)
	picky.StartTLS()
	defer picky.Close()
	plainText := httptest.NewServer(http.NotFoundHandler())
	defer plainText.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	runtest.Check(t, closed.Close())

	tests := map[string]struct {
		own, endpoint string
		want          string // expected error; "" if reachable
	}{
		"a server with a certificate that nobody knows": {own: quiet.URL, endpoint: quiet.URL},
		"a server that wants a certificate":             {own: quiet.URL, endpoint: picky.URL},
		"a name of this machine":                        {own: "https://localhost:1", endpoint: strings.Replace(quiet.URL, "127.0.0.1", "localhost", 1)},
		"this machine, for a cluster elsewhere":         {own: "https://rome.example", endpoint: quiet.URL, want: "loopback"},
		"a name of this machine, for one elsewhere":     {own: "https://rome.example", endpoint: strings.Replace(quiet.URL, "127.0.0.1", "localhost", 1), want: "loopback"},
		"this machine as an IPv6 address":               {own: "https://10.0.0.1", endpoint: "https://[::ffff:127.0.0.1]:443", want: "loopback"},
		"the metadata of a cloud":                       {own: "https://10.0.0.1", endpoint: "https://169.254.169.254", want: "cannot be the address of an API server"},
		"a link-local address":                          {own: "https://10.0.0.1", endpoint: "https://[fe80::1%25lo]:6443", want: "cannot be the address of an API server"},
		"many machines":                                 {own: "https://10.0.0.1", endpoint: "https://224.0.0.1", want: "cannot be the address of an API server"},
		"no machine":                                    {own: quiet.URL, endpoint: "https://0.0.0.0:6443", want: "cannot be the address of an API server"},
		"nothing listens":                               {own: quiet.URL, endpoint: "https://" + closed.Addr().String(), want: "connection refused"},
		"something that does not speak TLS":             {own: quiet.URL, endpoint: "https://" + plainText.Listener.Addr().String(), want: "does not speak TLS"},
		"no https address":                              {own: quiet.URL, endpoint: plainText.URL, want: "not an https address"},
		"an address with a password":                    {own: quiet.URL, endpoint: "https://a:b@127.0.0.1", want: "not an https address"},
		"no address at all":                             {own: quiet.URL, endpoint: "paris", want: "not an https address"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			roundTrip, err := newDialer(tt.own, time.Now).dialEndpoint(t.Context(), tt.endpoint)
			switch {
			case tt.want == "" && (err != nil || roundTrip <= 0 || roundTrip > dialTimeout):
				t.Errorf("took %s: %v", roundTrip, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A port that accepts connections without answering does not count as an API server.
func TestSilentPortIsNoAPIServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	defer listener.Close() //nolint:errcheck // the test is over, so an error does not matter
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := newDialer("https://127.0.0.1", time.Now).dialEndpoint(ctx, "https://"+listener.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
}
