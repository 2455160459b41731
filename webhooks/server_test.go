package webhooks

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestServerOptions(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
		off  bool
	}{
		"off by default":           {off: true},
		"off with address 0":       {args: []string{"--webhook-bind-address=0", "--webhook-cert-path=/certs"}, off: true},
		"any address of a port":    {args: []string{"--webhook-bind-address=:9443", "--webhook-cert-path=/certs"}},
		"one address":              {args: []string{"--webhook-bind-address=[::1]:9443", "--webhook-cert-path=/certs"}},
		"without certificates":     {args: []string{"--webhook-bind-address=:9443"}, want: "--webhook-cert-path is missing: give the folder"},
		"a port alone":             {args: []string{"--webhook-bind-address=9443", "--webhook-cert-path=/certs"}, want: `"9443" is not host:port, for example :9443`},
		"a port that is no number": {args: []string{"--webhook-bind-address=:https", "--webhook-cert-path=/certs"}, want: `port "https" must be a number from 1 to 65535`},
		"a port that is too large": {args: []string{"--webhook-bind-address=:70000", "--webhook-cert-path=/certs"}, want: `port "70000" must be`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var o Options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.Bind(flags)
			runtest.Check(t, flags.Parse(tc.args))
			server, err := o.Server(time.Now)
			switch {
			case tc.want != "":
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			case err != nil || (server == nil) != tc.off || o.Enabled() == tc.off:
				t.Errorf("server %v, enabled %v, %v", server, o.Enabled(), err)
			}
		})
	}
}

// TestServerUsesRenewedCertificate checks that the server uses a renewed certificate without a
// restart.
func TestServerUsesRenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	renew := func() *pkitest.Authority {
		authority, err := pkitest.NewAuthority("webhooks", time.Now())
		runtest.Check(t, err)
		pair, err := authority.IssueServer([]string{"webhook.test.svc"}, nil)
		if err := errors.Join(err,
			os.WriteFile(filepath.Join(dir, "tls.key"), pair.KeyPEM, 0o600),
			os.WriteFile(filepath.Join(dir, "tls.crt"), pair.CertPEM, 0o600)); err != nil {
			t.Fatal(err)
		}
		return authority
	}
	first := renew()
	o := Options{Address: freeAddress(t), CertDir: dir}
	server, err := o.Server(time.Now)
	runtest.Check(t, err)
	if server.NeedLeaderElection() {
		t.Error("only a leader would serve")
	}
	runtest.Start(t, server)
	awaitTLS(t, o.Address, first)
	awaitTLS(t, o.Address, renew())

	old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12} //nolint:gosec // it must not get through
	if conn, err := tls.Dial("tcp", o.Address, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
}

// awaitTLS waits until the server presents a certificate of an authority.
func awaitTLS(t *testing.T, address string, authority *pkitest.Authority) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: authority.Pool(), ServerName: "webhook.test.svc", MinVersion: tls.VersionTLS13})
		if last = err; err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	defer listener.Close() //nolint:errcheck // only its address was wanted
	return listener.Addr().String()
}

// TestServerBoundsTheMemoryOfReviews sends reviews as someone who is not the API server could.
func TestServerBoundsTheMemoryOfReviews(t *testing.T) {
	s, mux := bounded()
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	s.Register("/hook", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	post := func(ctx context.Context, length int64) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hook", bytes.NewReader(make([]byte, max(length, 0))))
		r.ContentLength = length
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Code
	}
	for what, length := range map[string]int64{"too large": largestReview + 1, "of unknown length": -1} {
		if got := post(t.Context(), length); got != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d", what, got)
		}
	}
	var served sync.WaitGroup
	for range bytesInFlight / largestReview {
		served.Go(func() { post(t.Context(), largestReview) })
		<-arrived
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := post(ctx, largestReview); got != http.StatusServiceUnavailable {
		t.Errorf("beyond the limit: got %d", got)
	}
	served.Go(func() {
		if got := post(t.Context(), largestReview); got != http.StatusOK {
			t.Errorf("after others were answered: got %d", got)
		}
	})
	close(answer)
	served.Wait()
	if s.inFlight.free != bytesInFlight || len(s.inFlight.reading) > 0 {
		t.Errorf("%d bytes are free at the end, and %d reviews are read", s.inFlight.free, len(s.inFlight.reading))
	}
}

// TestSlowSendersDelayNoOthers has senders that stop at the last byte use all memory. Their time to
// send does not pass in this test.
func TestSlowSendersDelayNoOthers(t *testing.T) {
	s, mux := bounded()
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	s.Register("/hook", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}))
	server := httptest.NewServer(mux)
	defer server.Close()
	const senders = bytesInFlight / (largestReview - 1)
	var slow []net.Conn
	for range senders {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the test is over
		slow = append(slow, conn)
		if _, err := fmt.Fprintf(conn, "POST /hook HTTP/1.1\r\nHost: hooks\r\nContent-Length: %d\r\n\r\n", largestReview); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(make([]byte, largestReview-1)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the slow senders to hold all memory", func() bool { return s.inFlight.freeBytes() == bytesInFlight-senders*(largestReview-1) })
	for _, length := range []int{10 << 10, 1 << 20, largestReview} {
		honest := bytes.Repeat([]byte("a"), length)
		answer, err := http.Post(server.URL+"/hook", "application/json", bytes.NewReader(honest)) //nolint:noctx // it must be answered
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK || !bytes.Equal(got, honest) {
			t.Errorf("a review of %d bytes: %s with %d bytes, %v", length, answer.Status, len(got), err)
		}
	}
	// Who was first made room, and learns why.
	answer, err := http.ReadResponse(bufio.NewReader(slow[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // the test is over
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the first slow sender got %s", answer.Status)
	}
}

func bounded() (*boundedServer, *http.ServeMux) {
	mux := http.NewServeMux()
	return &boundedServer{webhook.NewServer(webhook.Options{WebhookMux: mux}), newInFlight(bytesInFlight), time.Now}, mux
}

// freeBytes returns how many bytes are free.
func (f *inFlight) freeBytes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.free
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
