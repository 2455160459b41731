// Package plan decides what an agent does next for a placement.
//
// ForConsumer and ForProvider take an observation, a ConsumerView or a ProviderView, and
// return actions and a state. Both are pure: they read no clock and no cluster, so a table
// of views tests every case. Every action can be repeated. After a crash, a plan continues
// from the objects that exist.
//
//	view ─▶ ForConsumer ─▶ offloading, peering, network, slice      while the placement stands
//	                     └▶ drain, slice, offloading, peering, home  once it is released
package plan
