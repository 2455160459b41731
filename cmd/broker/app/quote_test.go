package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
)

// A follower has no book, so it returns the quote of the leader. It recognizes the leader by the certificate of the
// webhooks.
func TestFollowerAnswersWithTheQuoteOfTheLeader(t *testing.T) {
	authority, err := pkitest.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue := func() pki.KeyPair {
		pair, err := authority.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	shared, foreign := issue(), issue()
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	leader := &quoter{
		decide: func(_ context.Context, r *brokerv1alpha1.Reservation) (*v1.Quote, error) {
			if r.Name != "mine" {
				return nil, fault.New(fault.Invalid, "%q is refused", r.Name)
			}
			return &v1.Quote{ClusterID: "paris", Hours: 1, Candidates: []v1.QuotedCandidate{}, Rejected: map[string]int32{}}, nil
		},
		limit: rate.NewLimiter(0, 3), now: now,
	}
	serve := func(pair pki.KeyPair) string {
		certificate, err := pair.TLS()
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(leader)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, pki.CertFile), shared.CertPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(address, name string) (*v1.Quote, error) {
		follower := &quoter{certDir: dir, webhooksOfLeader: func() string { return address }}
		return follower.quoteReservation(t.Context(), &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	honest := serve(shared)
	quote, err := ask(honest, "mine")
	if diff := cmp.Diff(&v1.Quote{ClusterID: "paris", Hours: 1, Candidates: []v1.QuotedCandidate{}, Rejected: map[string]int32{}}, quote); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := ask(honest, "other"); fault.ReasonOf(err) != fault.Invalid || err.Error() != `"other" is refused` {
		t.Errorf("a refusal arrives as %v", err)
	}
	if _, err := ask(serve(foreign), "mine"); err == nil || !strings.Contains(err.Error(), "shows another certificate") {
		t.Errorf("a server with another certificate: %v", err)
	}
	if _, err := ask(honest, "mine"); err != nil {
		t.Error(err)
	}
	if _, err := ask(honest, "mine"); fault.ReasonOf(err) != fault.TooManyRequests {
		t.Errorf("beyond the limit: %v", err)
	}
}
