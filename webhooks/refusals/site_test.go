// Package refusals tests that a real API server and a real broker refuse invalid input with the
// field's name and a remedy, and that nothing changes.
package refusals

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	namespace = "liqo-resource-broker"
	poll      = 50 * time.Millisecond
	timeout   = 5 * time.Minute // only a broken program takes this long
)

// site is one cluster that is both the broker's and a member. Two brokers and an agent run in
// it as their charts install them, and every write passes their webhooks.
type site struct {
	client.Client
	plane            *controlplane.ControlPlane
	servers, members *pkitest.Authority
	// url is the broker's address for agents.
	url string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{plane: controlplanetest.Start(t)}
	var err error
	s.Client, err = client.New(s.plane.RESTConfig(), client.Options{})
	runtest.Check(t, err)
	for _, authority := range []**pkitest.Authority{&s.servers, &s.members} {
		*authority, err = pkitest.NewAuthority("test", time.Now())
		runtest.Check(t, err)
	}
	t.Cleanup(func() { s.tellWhy(t) })
	s.prepare(t)
	port, err := release.ServicePort(s.plane, "broker", "broker", "rest")
	runtest.Check(t, err)
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	s.install(t, "broker", charts.Broker(), map[string]any{
		"certificates": map[string]any{
			"certManager": map[string]any{"enabled": false},
			"existing":    map[string]any{"tls": "broker-tls", "agentsCA": "members-ca", "webhook": "broker-webhook"},
		},
		"enrolment": map[string]any{"enabled": false},
	})
	s.install(t, "agent", charts.Agent(), map[string]any{
		"cluster": map[string]any{"id": "rome"}, "peeringMode": "none",
		"broker":   map[string]any{"urls": []any{s.url}},
		"identity": map[string]any{"existingSecret": "rome"},
		"certificates": map[string]any{
			"certManager": map[string]any{"enabled": false},
			"existing":    map[string]any{"webhook": "agent-webhook"},
		},
	})
	return s
}

// tellWhy prints the last lines of the programs' logs when a test failed.
func (s *site) tellWhy(t *testing.T) {
	if !t.Failed() {
		return
	}
	for _, name := range []string{"broker-0", "broker-1", "agent-0"} {
		text, err := os.ReadFile(filepath.Join(s.plane.Dir(), "logs", name+".log"))
		const most = 4000
		t.Logf("%s (%v): …%s", name, err, text[max(0, len(text)-most):])
	}
}

// prepare creates what the charts expect to exist.
func (s *site) prepare(t *testing.T) {
	t.Helper()
	for _, name := range []string{namespace, "liqo", "team"} {
		runtest.Check(t, s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	broker := issued(t)(s.servers.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}))
	rome := issued(t)(s.members.IssueClient("rome", ""))
	secrets := map[string]map[string][]byte{
		"broker-tls": {"tls.crt": broker.CertPEM, "tls.key": broker.KeyPEM, "ca.crt": s.servers.CertPEM()},
		"members-ca": {"ca.crt": s.members.CertPEM()},
		"rome":       {"tls.crt": rome.CertPEM, "tls.key": rome.KeyPEM, "ca.crt": s.servers.CertPEM(), "agents-ca.crt": s.members.CertPEM()},
	}
	for _, name := range []string{"broker", "agent"} {
		pair := issued(t)(s.servers.IssueServer([]string{fmt.Sprintf("%s-webhook.%s.svc", name, namespace)}, nil))
		secrets[name+"-webhook"] = map[string][]byte{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM}
	}
	for name, data := range secrets {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
		runtest.Check(t, s.Create(t.Context(), secret))
	}
}

func issued(t *testing.T) func(pki.KeyPair, error) pki.KeyPair {
	t.Helper()
	return func(pair pki.KeyPair, err error) pki.KeyPair {
		t.Helper()
		runtest.Check(t, err)
		return pair
	}
}

// install runs a program as its chart specifies.
func (s *site) install(t *testing.T, name string, chart fs.FS, values map[string]any) {
	t.Helper()
	values["fullnameOverride"] = name
	values["metrics"] = map[string]any{"enabled": false}
	values["webhook"] = map[string]any{"caBundle": base64.StdEncoding.EncodeToString(s.servers.CertPEM())}
	r, err := release.New(release.Options{
		Cluster: s.plane, Chart: chart, Name: name, Namespace: namespace,
		Programs: map[string]release.Program{name: {Path: controlplanetest.Program(t, name)}},
	})
	if err == nil {
		err = r.Apply(t.Context(), values)
	}
	runtest.Check(t, err)
}

// apply creates valid objects.
func (s *site) apply(t *testing.T, text string) {
	t.Helper()
	objects, err := manifest.Read([]byte(text))
	if err == nil {
		err = manifest.Install(t.Context(), s, objects)
	}
	runtest.Check(t, err)
}

// await polls an object until a field has a value.
func (s *site) await(t *testing.T, kind schema.GroupVersionKind, namespace, name, want string, field ...string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(ctx context.Context) (bool, error) {
		if last = s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj); last != nil {
			return false, nil
		}
		value, _, err := unstructured.NestedFieldNoCopy(obj.Object, field...)
		last = errors.Join(err, fmt.Errorf("it is %v", value))
		return fmt.Sprint(value) == want, nil
	})
	if err != nil {
		t.Fatalf("%s %q: waiting for %v to be %s: %v", kind.Kind, name, field, want, last)
	}
}

// as returns a REST client of the API server for a user; "" is an administrator.
func (s *site) as(t *testing.T, user string) rest.Interface {
	t.Helper()
	config := s.plane.RESTConfig()
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(config)
	runtest.Check(t, err)
	return c
}

// member returns a client of the broker with the certificate of a cluster.
func (s *site) member(t *testing.T, clusterID string) *http.Client {
	t.Helper()
	certificate, err := issued(t)(s.members.IssueClient(clusterID, "")).TLS()
	runtest.Check(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{certificate}, RootCAs: s.servers.Pool(), MinVersion: tls.VersionTLS13,
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: timeout}
}
