// Package kubeconfigs connects to clusters without an agent.
package kubeconfigs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remoteTimeout is the timeout of a call to another cluster with its kubeconfig.
const remoteTimeout = 5 * time.Second

// Folder returns clients for clusters without an agent. It creates them from files named
// <cluster-id>.kubeconfig. A new, changed or deleted file takes effect at the next call.
type Folder struct {
	dir    string
	scheme *runtime.Scheme

	mu      sync.Mutex // guards clients
	clients map[string]remote
}

// New returns a Folder at a path. Its clients know the types in the scheme.
func New(dir string, scheme *runtime.Scheme) *Folder {
	return &Folder{dir: dir, scheme: scheme, clients: map[string]remote{}}
}

// remote is a client, and the content of the kubeconfig from which it was created.
type remote struct {
	client.Client
	text string
}

// ClientOf returns a client for a cluster. It reuses the client until the cluster's file
// changes.
func (k *Folder) ClientOf(clusterID string) (client.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path := filepath.Join(k.dir, clusterID+".kubeconfig")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		delete(k.clients, clusterID)
		return nil, fmt.Errorf("there is no %s: put its kubeconfig there, or install an agent in that cluster", path)
	}
	if err != nil {
		return nil, fmt.Errorf("its kubeconfig: %w", err)
	}
	if known, ok := k.clients[clusterID]; ok && known.text == string(text) {
		return known.Client, nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, fmt.Errorf("its kubeconfig %s: %w", path, err)
	}
	config.Timeout = remoteTimeout
	c, err := client.New(config, client.Options{Scheme: k.scheme})
	if err != nil {
		return nil, fmt.Errorf("its kubeconfig %s: %w", path, err)
	}
	k.clients[clusterID] = remote{Client: c, text: string(text)}
	return c, nil
}
