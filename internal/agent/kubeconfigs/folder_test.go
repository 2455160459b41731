package kubeconfigs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestChangedKubeconfigTakesEffectAtTheNextCall(t *testing.T) {
	k := New(t.TempDir(), runtime.NewScheme())
	path := filepath.Join(k.dir, "paris.kubeconfig")
	write := func(text string) {
		t.Helper()
		runtest.Check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	wants := func(part string) {
		t.Helper()
		if _, err := k.ClientOf("paris"); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want an error that names %q", err, part)
		}
	}
	works := func() client.Client {
		t.Helper()
		c, err := k.ClientOf("paris")
		runtest.Check(t, err)
		return c
	}
	wants(path)
	write("not: [a kubeconfig")
	wants(path)
	write(kubeconfig(t, "https://paris.example:6443"))
	first := works()
	if works() != first {
		t.Error("another client for the same file")
	}
	write(kubeconfig(t, "https://paris.example:7443"))
	if works() == first {
		t.Error("the same client for another file")
	}
	runtest.Check(t, os.Remove(path))
	wants(path)
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	text, err := clientcmd.Write(api.Config{
		CurrentContext: "c", Clusters: map[string]*api.Cluster{"c": {Server: server}},
		Contexts: map[string]*api.Context{"c": {Cluster: "c"}},
	})
	runtest.Check(t, err)
	return string(text)
}
