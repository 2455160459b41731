// Package plan decides what an agent does next for a placement.
//
// PlanConsumer and PlanProvider take what was observed, a ConsumerView or a ProviderView,
// and return actions and a state. They are pure: they read no clock and no cluster, so a
// table of views tests every case. Every action can be repeated, and a plan that starts
// again after a crash continues from the objects that are there.
//
//	view ─▶ PlanConsumer ─▶ offloading, peering, network, slice      while the placement stands
//	                     └▶ drain, slice, offloading, peering, home  once it is released
package plan
