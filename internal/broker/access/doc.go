// Package access decides which clusters may use the broker. It disconnects a cluster that may no
// longer use it.
//
//	BrokerConfig ─▶ Policy ─▶ Gate ─▶ every request, every open connection,
//	                                  every decision, every certificate
package access
