// Package plan decides what an agent does next for a placement.
//
// ForConsumer and ForProvider take an observation, a ConsumerView or a ProviderView, and return
// actions and a state. They are pure functions that read neither clock nor cluster, so tests can
// cover every case with a table of views. Every action can be repeated. After a crash, a plan
// continues from the objects that exist.
//
//	view ─▶ ForConsumer ─▶ offloading, peering, network, slice      until the placement has ended
//	                     └▶ drain, slice, offloading, peering, home  after that
//
// "Home" means the objects in this cluster that are removed last: the network connection, the
// tenant namespace and the ForeignCluster of the peer.
package plan
