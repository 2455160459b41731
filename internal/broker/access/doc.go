// Package access decides which clusters take part, and disconnects those that no longer do.
//
//	BrokerConfig ─▶ Policy ─▶ Gate ─▶ every request, every open connection,
//	                                  every decision, every certificate
package access
