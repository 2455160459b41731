package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
)

// administrators is the group that has all rights in Kubernetes.
const administrators = "system:masters"

// tokenValidity is longer than a playground runs between two boots. Each boot renews the tokens.
const tokenValidity = 365 * 24 * time.Hour

func (c *ControlPlane) serviceAccountKey() string { return c.path("pki", "serviceaccounts.key") }

// createServiceAccountKey creates the key that signs ServiceAccount tokens, unless it exists.
func createServiceAccountKey(dir string) error {
	file := filepath.Join(dir, "serviceaccounts.key")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	content, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

func (c *ControlPlane) writeAdminKubeconfig() (*rest.Config, error) {
	pair, err := c.authority.Issue(authority.Subject{CommonName: "admin", Organizations: []string{administrators}})
	if err != nil {
		return nil, err
	}
	user := &clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	if err := c.writeKubeconfig(c.Kubeconfig(), user, metav1.NamespaceDefault); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // only the API server limits requests
	return config, nil
}

// componentKubeconfig issues a client certificate for a control plane component, writes a kubeconfig with it, and
// returns the path of the file.
func (c *ControlPlane) componentKubeconfig(subject authority.Subject) (string, error) {
	pair, err := c.authority.Issue(subject)
	if err != nil {
		return "", err
	}
	file := c.path("pki", strings.TrimPrefix(subject.CommonName, "system:")+".kubeconfig")
	return file, c.writeKubeconfig(file,
		&clientcmdapi.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}, metav1.NamespaceDefault)
}

// ServiceAccountKubeconfig issues a token for a ServiceAccount and writes a kubeconfig with it. It returns the path
// of the file. Each call replaces the previous file.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenValidity.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token for ServiceAccount %q in namespace %q of cluster %q: %w", name, namespace, c.options.Name, err)
	}
	dir := c.path("serviceaccounts", namespace)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, name+".kubeconfig")
	return file, c.writeKubeconfig(file, &clientcmdapi.AuthInfo{Token: token.Status.Token}, namespace)
}

// writeKubeconfig writes a self-contained file that can be copied elsewhere. It replaces the file atomically, because
// a process may be reading it.
func (c *ControlPlane) writeKubeconfig(file string, user *clientcmdapi.AuthInfo, namespace string) error {
	name := c.options.Name
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: c.URL(), CertificateAuthorityData: c.CA()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	})
	if err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), ".kubeconfig") // only its owner can read it
	if err != nil {
		return err
	}
	if _, err := fresh.Write(content); err != nil {
		return errors.Join(err, fresh.Close())
	}
	if err := fresh.Close(); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), file)
}
