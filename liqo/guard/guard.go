package guard

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Options of a Guard.
type Options struct {
	// InstructionNamespace holds the instructions.
	InstructionNamespace string
	// Client reads from a cache, Reader from the API server.
	Client client.Client
	Reader client.Reader
	// Elsewhere has identities signed for reservations alone in tenant namespaces that the
	// agent did not make, too.
	Elsewhere bool
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Guard decides what consumers may have and do in this cluster, and writes it down where
// Liqo, Kubernetes and the admission policies heed it.
type Guard struct {
	opts Options
	// opened holds the UIDs of placements whose rights were opened and which the cache may
	// not show as provided yet.
	opened sync.Map
}

// New returns a Guard; it needs all options but Elsewhere and Log.
func New(o Options) *Guard { return &Guard{opts: o} }

// TenantNamespaceOf returns the name of the namespace for a peer, "" if there is none.
func (g *Guard) TenantNamespaceOf(ctx context.Context, peer string) (string, error) {
	ns, err := object.FindTenantNamespace(ctx, g.opts.Client, peer)
	if ns == nil || err != nil {
		return "", err
	}
	return ns.Name, nil
}
