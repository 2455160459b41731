package guard

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Options configure a Guard.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// InstructionNamespace is the namespace of the ProviderInstructions.
	InstructionNamespace string
	// Client reads from a cache. Reader reads from the API server.
	Client client.Client
	Reader client.Reader
	// Elsewhere is true if the guard also covers tenant namespaces that the agent did not make:
	// it then refuses certificates for slices in them that have no reservation.
	Elsewhere bool
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Guard decides what consumers may have and do in this cluster. It writes its decisions to the
// objects that Liqo, Kubernetes and the admission policies read.
type Guard struct {
	opts Options

	mu sync.Mutex // guards resends
	// resends holds the replicated slices that are incomplete.
	resends map[types.NamespacedName]resend
}

// New returns a Guard. Only the options Elsewhere and Log may be left unset.
func New(o Options) *Guard { return &Guard{opts: o, resends: map[types.NamespacedName]resend{}} }

// TenantNamespaceOf returns the name of the peer's tenant namespace, "" if there is none.
func (g *Guard) TenantNamespaceOf(ctx context.Context, peer string) (string, error) {
	ns, err := object.FindTenantNamespace(ctx, g.opts.Client, peer)
	if ns == nil || err != nil {
		return "", err
	}
	return ns.Name, nil
}
