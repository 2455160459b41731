package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// serveBroker answers every request in place of a broker, with a certificate for the address.
// Without agents, it asks callers for no certificate.
func serveBroker(t *testing.T, servers, agents *pkitest.Authority, address net.IP, code int, body string) (url string) {
	t.Helper()
	pair, err := servers.IssueServer(nil, []net.IP{address})
	runtest.Check(t, err)
	certificate, err := pair.TLS()
	runtest.Check(t, err)
	certificate.Certificate = append(certificate.Certificate, servers.Certificate().Raw)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	if agents != nil {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, agents.Pool()
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestCheckExplainsWhyTheBrokerCannotBeUsed(t *testing.T) {
	servers, agents, other := pkitest.New(t, "servers", time.Now()), pkitest.New(t, "agents", time.Now()), pkitest.New(t, "other", time.Now())
	here := net.IPv4(127, 0, 0, 1)
	problem := func(reason, detail string) string {
		return fmt.Sprintf(`{"type":"about:blank","title":"x","status":1,"reason":%q,"detail":%q}`, reason, detail)
	}
	for name, tc := range map[string]struct {
		url           string
		says, advises string
		level         checkup.Level
	}{
		"it answers": {
			url:   serveBroker(t, servers, agents, here, 200, fmt.Sprintf(`{"version":"v9","apiVersion":"v1","apiMinor":%d,"journalID":"j"}`, v1.Minor)),
			level: checkup.Warning, says: "answers with version v9", advises: "upgrade",
		},
		"its certificate is of another CA": {
			url:   serveBroker(t, other, agents, here, 200, ""),
			level: checkup.Failed, says: "unknown authority", advises: "ca.crt in --broker-cert-path",
		},
		"its certificate is for another name": {
			url:   serveBroker(t, servers, agents, net.IPv4(127, 0, 0, 2), 200, ""),
			level: checkup.Failed, says: "127.0.0.1", advises: "certificates.dnsNames",
		},
		"it does not know the CA of this cluster": {
			url:   serveBroker(t, servers, other, here, 200, ""),
			level: checkup.Failed, says: "remote error", advises: "agents-ca.crt holds another CA",
		},
		"it is the enrolment listener": {
			url:   serveBroker(t, servers, nil, here, 404, problem("NotFound", "no such path: this is the enrolment listener")),
			level: checkup.Failed, says: "this is the enrolment listener", advises: "correct the port",
		},
		"it denies the cluster": {
			url:   serveBroker(t, servers, agents, here, 403, problem("ClusterDenied", "denied")),
			level: checkup.Failed, says: "denied", advises: "deniedClusters and approvedClusters",
		},
		"it cannot write its journal": {
			url:   serveBroker(t, servers, agents, here, 503, problem("Unavailable", "cannot write")),
			level: checkup.Failed, says: "cannot write", advises: "broker check",
		},
		"the address is http":   {url: "http://127.0.0.1:1", level: checkup.Failed, says: `scheme is "http"`, advises: "serves https only"},
		"nothing listens there": {url: "https://127.0.0.1:1", level: checkup.Failed, says: "connection refused", advises: "check the address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := agents.IssueClient("rome", "test.local")
			runtest.Check(t, err)
			o := &checkOptions{options: defaultOptions()}
			o.certPath, o.brokerURLs = t.TempDir(), []string{tc.url}
			runtest.Check(t, pkitest.Save(o.certPath, pair, servers.CertPEM(), agents.CertPEM()))
			got := o.checkBroker(t.Context(), nil)
			if got.Level != tc.level || !strings.Contains(got.Message, tc.says) || !strings.Contains(got.Advice, tc.advises) {
				t.Errorf("got %+v, want %s, %q and advice %q", got, tc.level, tc.says, tc.advises)
			}
		})
	}
}

func TestCheckExplainsWhyAClusterHasNotEnrolled(t *testing.T) {
	servers, agents := pkitest.New(t, "servers", time.Now()), pkitest.New(t, "agents", time.Now())
	here := net.IPv4(127, 0, 0, 1)
	right, wrong := pki.KeyHash(servers.Certificate()), pki.KeyHash(agents.Certificate())
	open := serveBroker(t, servers, nil, here, 200, `{}`)
	for name, tc := range map[string]struct{ url, hash, says, advises string }{
		"without enrolment":              {says: "tls.crt", advises: "broker enrol CLUSTER-ID"},
		"another CA":                     {url: open, hash: wrong, says: "none of the CAs in its chain", advises: "set enrolment.caHash"},
		"no hash":                        {url: open, says: "--enrolment-ca-hash", advises: "correct enrolment.url and enrolment.caHash"},
		"an http address":                {url: "http://127.0.0.1:1", hash: right, says: `scheme is "http"`, advises: "correct enrolment.url"},
		"the listener for agents":        {url: serveBroker(t, servers, agents, here, 200, ""), hash: right, says: "certificate required", advises: "8444 by default"},
		"nothing listens there":          {url: "https://127.0.0.1:1", hash: right, says: "connection refused", advises: "check enrolment.url"},
		"it waits for its administrator": {url: open, hash: right, says: "the enrolment listener answers", advises: "must approve the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &checkOptions{options: defaultOptions()}
			o.certPath, o.enrolmentURL = t.TempDir(), tc.url
			if tc.hash != "" {
				o.enrolmentCAHashes = []string{tc.hash}
			}
			got := o.checkIdentity(t.Context(), nil)
			if got.Level != checkup.Failed || !strings.Contains(got.Message, tc.says) || !strings.Contains(got.Advice, tc.advises) {
				t.Errorf("got %+v, want %q and advice %q", got, tc.says, tc.advises)
			}
		})
	}
}

func TestCheckFindsAnAgentThatDoesNotAdvertise(t *testing.T) {
	const interval = 30 * time.Second
	for name, tc := range map[string]struct {
		pong  *v1.Pong
		lease checkup.Finding
		level checkup.Level
		says  string
	}{
		"advertised in time":         {&v1.Pong{AdvertisedSecondsAgo: new(29.6)}, checkup.Found("rome-1 leads"), checkup.OK, "rome-1 leads, and advertised 30s ago"},
		"without lease":              {&v1.Pong{AdvertisedSecondsAgo: new(2.0)}, checkup.Skip("none"), checkup.OK, "advertised 2s ago"},
		"missed one advertisement":   {&v1.Pong{AdvertisedSecondsAgo: new(46.0)}, checkup.Found("rome-1 leads"), checkup.Warning, "is 46s old, and one is due every 30s"},
		"missed three of them":       {&v1.Pong{AdvertisedSecondsAgo: new(96.0)}, checkup.Found("rome-1 leads"), checkup.Failed, "is 1m36s old, and one is due every 30s: the agent hangs"},
		"never advertised":           {&v1.Pong{}, checkup.Found("rome-1 leads"), checkup.Failed, "never received"},
		"a broker that is silent":    {nil, checkup.Found("rome-1 leads"), checkup.OK, "rome-1 leads"},
		"neither a broker nor lease": {nil, checkup.Skip("none"), checkup.Skipped, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := advertisedFinding(tc.pong, interval, tc.lease); got.Level != tc.level || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got %+v, want %s and %q", got, tc.level, tc.says)
			}
		})
	}
}
