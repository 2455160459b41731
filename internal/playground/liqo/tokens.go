package liqo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLifetime outlasts a playground that is left running; every boot mints anew.
const tokenLifetime = int64(7 * 24 * 3600)

// tokens makes kubeconfigs with the rights of ServiceAccounts.
type tokens struct {
	config *rest.Config
	client kubernetes.Interface
	dir    string
}

func newTokens(config *rest.Config, dir string) (*tokens, error) {
	if err := ensureDir(dir); err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &tokens{config: config, client: c, dir: dir}, nil
}

// kubeconfig writes one for a ServiceAccount and returns its path.
func (t *tokens) kubeconfig(ctx context.Context, namespace, account string) (string, error) {
	lifetime := tokenLifetime
	token, err := t.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: t.config.Host, CertificateAuthorityData: t.config.CAData, CertificateAuthority: t.config.CAFile}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: account, Namespace: namespace}
	config.CurrentContext = "context"
	path := filepath.Join(t.dir, namespace+"_"+account+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("kubeconfig of ServiceAccount %s/%s: %w", namespace, account, err)
	}
	return path, os.Chmod(path, 0o600)
}
