package capacity

import "github.com/mehdiazizian/liqo-resource-broker/internal/quantity"

// Guests says how many pods of workloads are on a node. Finished pods, mirror pods and pods of DaemonSets
// do not count.
type Guests struct {
	// Now is the number of these pods on the node. Came is how many have come since the node was first seen: it reveals
	// a pod that came and went between two calls.
	Now  int
	Came uint64
}

// GuestsOn counts the pods of workloads on a node. It returns false if the node is not known or the pods have not been
// counted yet.
func (w *Watcher) GuestsOn(name string) (Guests, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.accounts.nodes[name]
	if n == nil || !n.known || !w.runningKnown {
		return Guests{}, false
	}
	return Guests{n.guests, n.came}, true
}

// OwnRequestsOn returns the sum of the requests of this cluster's own pods on a node, including pods of DaemonSets.
func (w *Watcher) OwnRequestsOn(name string) quantity.Amounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.accounts.nodes[name]
	if n == nil {
		return nil
	}
	return n.own.Clone()
}
