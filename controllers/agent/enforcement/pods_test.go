package enforcement

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// recordingManager records what is added to it.
type recordingManager struct {
	ctrl.Manager
	added []manager.Runnable
}

func (m *recordingManager) Add(r manager.Runnable) error {
	m.added = append(m.added, r)
	return nil
}

// A replica that does not lead answers webhooks too. It is not ready before it knows consumers' pods, and an upgrade
// waits for it while the old replica leads.
func TestConsumersPodsAreWatchedOnEveryReplica(t *testing.T) {
	scheme := runtime.NewScheme()
	runtest.Check(t, clientgoscheme.AddToScheme(scheme))
	config := &rest.Config{Host: "https://127.0.0.1:1"} // nothing is started
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		return testrestmapper.TestOnlyStaticRESTMapper(scheme), nil
	}})
	runtest.Check(t, err)
	recording := &recordingManager{Manager: mgr}
	_, err = WatchPods(config, recording, "liqo-resource-broker")
	runtest.Check(t, err)
	for _, r := range recording.added {
		if l, ok := r.(manager.LeaderElectionRunnable); !ok || l.NeedLeaderElection() {
			t.Errorf("%T runs only on the leader", r)
		}
	}
	if len(recording.added) != 1 {
		t.Errorf("%d runnables, want the watch of pods", len(recording.added))
	}
}
