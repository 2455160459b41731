package console

import (
	"slices"
	"sync"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// shared is a snapshot whose objects, and what views derive from them, are shared by all requests until an object
// changes. Its time At is that of the request.
type shared struct {
	view.Snapshot
	parts *parts
	// revision is the revision of the objects.
	revision uint64
}

// parts are the parts of one snapshot that users with different rights may list. Users with the same rights share one.
type parts struct {
	mu sync.Mutex
	// namespaces are the sorted namespaces with objects, by resource.
	namespaces map[string][]string
	byRights   map[string]*view.Snapshot
}

// maxParts limits how many parts are kept.
const maxParts = 64

func newParts() *parts {
	return &parts{namespaces: map[string][]string{}, byRights: map[string]*view.Snapshot{}}
}

// partFor returns the part for the given rights. If there is none, it builds the part, and keeps it unless it keeps maxParts
// already.
func (p *parts) partFor(rights string, build func() *view.Snapshot) *view.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byRights[rights]; known != nil {
		return known
	}
	part := build()
	part.Remember()
	if len(p.byRights) < maxParts {
		p.byRights[rights] = part
	}
	return part
}

// namespacesOf returns the sorted namespaces of the objects of a resource.
func (p *parts) namespacesOf(resource string, n int, namespaceOf func(i int) string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.namespaces[resource]; ok {
		return known
	}
	all, last := map[string]bool{}, ""
	for i := range n {
		if name := namespaceOf(i); i == 0 || name != last { // mostly ordered
			last = name
			all[name] = true
		}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	p.namespaces[resource] = names
	return names
}
