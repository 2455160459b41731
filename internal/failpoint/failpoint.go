// Package failpoint lets a test kill the process at a named step, to prove that
// a restart finishes what was begun.
//
// It does nothing unless LRB_FAILPOINT names a point. LRB_FAILPOINT_ONCE is a
// folder: the first hit leaves a file there and kills, later ones pass, so that
// the restarted process gets through.
package failpoint

import (
	"os"
	"path/filepath"
	"syscall"
)

// Names of the environment variables that arm a point.
const (
	EnvName = "LRB_FAILPOINT"
	EnvOnce = "LRB_FAILPOINT_ONCE"
)

// Point is the name of a step.
type Point string

// Points of the agent that consumes.
const (
	ConsumerNamespaceMade    Point = "consumer-namespace-made"
	ConsumerAnswered         Point = "consumer-answered"
	ConsumerIdentityMade     Point = "consumer-identity-made"
	ConsumerSliceMade        Point = "consumer-slice-made"
	ConsumerOffloadingMade   Point = "consumer-offloading-made"
	ConsumerReady            Point = "consumer-ready"
	ConsumerSliceDeleted     Point = "consumer-slice-deleted"
	ConsumerOffloadingGone   Point = "consumer-offloading-deleted"
	ConsumerIdentityDeleted  Point = "consumer-identity-deleted"
	ConsumerNamespaceDeleted Point = "consumer-namespace-deleted"
	ConsumerGone             Point = "consumer-gone"
	ConsumerDeleted          Point = "consumer-deleted"
)

// Points of the agent that provides.
const (
	ProviderAdmitted         Point = "provider-admitted"
	ProviderAcknowledged     Point = "provider-acknowledged"
	ProviderNamespaceMade    Point = "provider-namespace-made"
	ProviderNonceMade        Point = "provider-nonce-made"
	ProviderChallenged       Point = "provider-challenged"
	ProviderTenantMade       Point = "provider-tenant-made"
	ProviderCredentialsSent  Point = "provider-credentials-sent"
	ProviderGranted          Point = "provider-granted"
	ProviderReleased         Point = "provider-released"
	ProviderGone             Point = "provider-gone"
	ProviderTenantDeleted    Point = "provider-tenant-deleted"
	ProviderNamespaceDeleted Point = "provider-namespace-deleted"
	ProviderDeleted          Point = "provider-deleted"
)

// Agent lists every point of the agent, in the order of a reservation's life.
var Agent = []Point{
	ProviderAdmitted, ProviderAcknowledged, ProviderNamespaceMade, ProviderNonceMade, ProviderChallenged,
	ConsumerNamespaceMade, ConsumerAnswered, ProviderTenantMade, ProviderCredentialsSent,
	ConsumerIdentityMade, ConsumerSliceMade, ConsumerOffloadingMade, ProviderGranted, ConsumerReady,
	ConsumerSliceDeleted, ConsumerOffloadingGone, ConsumerIdentityDeleted, ConsumerNamespaceDeleted,
	ConsumerGone, ConsumerDeleted,
	ProviderReleased, ProviderGone, ProviderTenantDeleted, ProviderNamespaceDeleted, ProviderDeleted,
}

var armed = os.Getenv(EnvName)

// Hit kills the process with SIGKILL if p is armed and was not hit before.
func Hit(p Point) {
	if armed != "" && armed == string(p) {
		kill(p)
	}
}

func kill(p Point) {
	if dir := os.Getenv(EnvOnce); dir != "" {
		marker, err := os.OpenFile(filepath.Join(dir, string(p)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		_ = marker.Close() // its existence is all that counts
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // cannot fail for oneself
	select {}
}
