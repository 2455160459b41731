// Package access says which clusters take part, and tells those that no longer do.
//
//	BrokerConfig ─▶ Policy ─▶ Gate ─▶ every request, every open connection,
//	                          every decision, every certificate
package access
