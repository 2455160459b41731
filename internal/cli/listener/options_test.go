package listener

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestOptionsErrorNamesWrongFlag(t *testing.T) {
	empty := t.TempDir()
	tests := map[string]struct {
		listener Metrics
		want     string
	}{
		"in the clear":                                     {listener: Metrics{Address: ":8080"}},
		"over TLS without a certificate":                   {listener: Metrics{Address: ":8080", Secure: true}},
		"a certificate directory without --metrics-secure": {listener: Metrics{CertDir: empty}, want: "add --metrics-secure"},
		"a directory without a certificate":                {listener: Metrics{Secure: true, CertDir: empty}, want: "tls.crt"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.listener.Options()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that names %q", err, test.want)
			}
		})
	}
}

func TestSecureMetricsRequireAuthorizedToken(t *testing.T) {
	exemplar := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Help: "For this test.", Buckets: []float64{1}})
	metrics.Registry.MustRegister(exemplar)
	defer metrics.Registry.Unregister(exemplar)
	plane := controlplanetest.Start(t)
	clients, err := kubernetes.NewForConfig(plane.RESTConfig())
	runtest.Check(t, err)
	allowMetrics(t, clients, "prometheus")
	site := startListener(t, plane.RESTConfig())

	tests := map[string]struct {
		token string
		want  int
		body  string
	}{
		"no token": {want: http.StatusUnauthorized},
		// controller-runtime answers 500 both for an unknown token and for a failing API server.
		"an unknown token":          {token: "invented", want: http.StatusInternalServerError},
		"a token without the right": {token: tokenOf(t, clients, "curious"), want: http.StatusForbidden},
		"a token with the right":    {token: tokenOf(t, clients, "prometheus"), want: http.StatusOK, body: "certwatcher_read_certificate_total"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := site.mustScrape(t, test.token)
			if status != test.want || !strings.Contains(body, test.body) {
				t.Errorf("got %d %.80q, want %d with %q", status, body, test.want, test.body)
			}
		})
	}

	t.Run("a scraper that asks for OpenMetrics", func(t *testing.T) {
		exemplar.(prometheus.ExemplarObserver).ObserveWithExemplar(1, prometheus.Labels{"trace_id": "7f3a"})
		request, err := http.NewRequest(http.MethodGet, "https://"+site.address+"/metrics", nil)
		runtest.Check(t, err)
		request.Header.Set("Authorization", "Bearer "+tests["a token with the right"].token)
		request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		status, body, err := site.send(request)
		if err != nil || status != http.StatusOK || !strings.Contains(body, `# {trace_id="7f3a"} 1.0`) {
			t.Errorf("got %d, %v and no exemplar", status, err)
		}
	})
	t.Run("a client that only speaks TLS 1.2", func(t *testing.T) {
		_, err := tls.Dial("tcp", site.address, &tls.Config{RootCAs: site.roots, ServerName: "metrics", MaxVersion: tls.VersionTLS12}) //nolint:gosec // the old version is what is tried
		if err == nil || !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("got %v, want a refusal of the version", err)
		}
	})
	t.Run("a certificate that was replaced", func(t *testing.T) {
		site.replaceCertificate(t)
		runtest.Await(t, "the new certificate to be in use", func() bool {
			status, _, _ := site.scrape("")
			return status == http.StatusUnauthorized
		})
	})
}

// allowMetrics grants the ServiceAccount in namespace default the right to read metrics.
func allowMetrics(t *testing.T, clients kubernetes.Interface, account string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	if _, err := clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func tokenOf(t *testing.T, clients kubernetes.Interface, account string) string {
	t.Helper()
	accounts := clients.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	runtest.Check(t, err)
	return token.Status.Token
}

// site is a listener for metrics, with a certificate of a CA that only this test uses.
type site struct {
	address string
	dir     string
	roots   *x509.CertPool
}

func startListener(t *testing.T, config *rest.Config) *site {
	t.Helper()
	s := &site{address: freeAddress(t), dir: t.TempDir()}
	s.replaceCertificate(t)
	options, err := Metrics{Address: s.address, Secure: true, CertDir: s.dir}.Options()
	runtest.Check(t, err)
	client, err := rest.HTTPClientFor(config)
	runtest.Check(t, err)
	listener, err := server.NewServer(options, config, client)
	runtest.Check(t, err)
	runtest.Start(t, listener)
	runtest.Await(t, "the listener to answer", func() bool {
		_, _, err := s.scrape("")
		return err == nil
	})
	return s
}

func (s *site) replaceCertificate(t *testing.T) {
	t.Helper()
	authority := pkitest.New(t, "metrics", time.Now())
	pair, err := authority.IssueServer([]string{"metrics"}, nil)
	runtest.Check(t, err)
	runtest.Check(t, pkitest.Save(s.dir, pair, authority.CertPEM(), authority.CertPEM()))
	s.roots = authority.Pool()
}

func (s *site) mustScrape(t *testing.T, token string) (int, string) {
	t.Helper()
	status, body, err := s.scrape(token)
	runtest.Check(t, err)
	return status, body
}

func (s *site) scrape(token string) (int, string, error) {
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://%s/metrics", s.address), nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return s.send(request)
}

func (s *site) send(request *http.Request) (int, string, error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.roots, ServerName: "metrics", MinVersion: tls.VersionTLS13},
		DisableKeepAlives: true,
	}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	defer listener.Close() //nolint:errcheck // it was only asked for a port
	return listener.Addr().String()
}
