// Package consoletest opens pages of a running console as users of a real API server.
package consoletest

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Browser opens pages of a console.
type Browser struct {
	t       *testing.T
	address string
	client  *http.Client
	// CertDir is the folder with the console's certificate, for --console-cert-path.
	CertDir string
}

// NewBrowser returns a browser for the console at an address of 127.0.0.1, and issues a certificate
// for that console, valid at the given time.
func NewBrowser(t *testing.T, address string, now time.Time) *Browser {
	t.Helper()
	authority := pkitest.New(t, "console", now)
	pair, err := authority.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, address: address, CertDir: t.TempDir(), client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13}, DisableKeepAlives: true},
	}}
	if err := pkitest.Save(b.CertDir, pair, authority.CertPEM(), authority.CertPEM()); err != nil {
		t.Fatal(err)
	}
	return b
}

// Await waits until the console answers.
func (b *Browser) Await() {
	b.t.Helper()
	runtest.Await(b.t, "the console to answer", func() bool {
		_, _, err := b.load("/login", "")
		return err == nil
	})
}

// Load returns the status and the text of a page. An empty token means that the user is not logged
// in.
func (b *Browser) Load(path, token string) (status int, text string) {
	b.t.Helper()
	status, text, err := b.load(path, token)
	if err != nil {
		b.t.Fatal(err)
	}
	return status, text
}

func (b *Browser) load(path, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "https://"+b.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := b.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// User creates a ServiceAccount in namespace default that may list resources of an API group in all
// namespaces, and returns its token.
func User(t *testing.T, config *rest.Config, name, group string, resources ...string) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(resources) > 0 {
		grant(t, clients, name, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list"}})
	}
	token, err := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

func grant(t *testing.T, clients kubernetes.Interface, account string, rule rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
