// Package failpoint lets a test kill the process at a named step, to prove that
// a restart finishes what was begun.
//
// It does nothing unless LRB_FAILPOINT names points, separated by commas. A point
// that is followed by a colon and a number lets the process pass so often before.
// LRB_FAILPOINT_ONCE is a folder: the first hit of a point leaves a file there and
// kills, later ones pass, so that the restarted process gets through.
package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
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
	RequestNoted             Point = "request-noted"
	RequestAnswered          Point = "request-answered"
	RequestInstructed        Point = "request-instructed"
	RequestGivenBack         Point = "request-given-back"
	RequestLetGo             Point = "request-let-go"
	ConsumerNamespaceMade    Point = "consumer-namespace-made"
	ConsumerAnswered         Point = "consumer-answered"
	ConsumerIdentityMade     Point = "consumer-identity-made"
	ConsumerSliceMade        Point = "consumer-slice-made"
	ConsumerOffloadingMade   Point = "consumer-offloading-made"
	ConsumerReady            Point = "consumer-ready"
	ConsumerDrainBegun       Point = "consumer-drain-begun"
	ConsumerNodeCordoned     Point = "consumer-node-cordoned"
	ConsumerPodsEvicted      Point = "consumer-pods-evicted"
	ConsumerPodsDeleted      Point = "consumer-pods-deleted"
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
	ProviderRightsOpened     Point = "provider-rights-opened"
	ProviderAcknowledged     Point = "provider-acknowledged"
	ProviderNamespaceMade    Point = "provider-namespace-made"
	ProviderNonceMade        Point = "provider-nonce-made"
	ProviderChallenged       Point = "provider-challenged"
	ProviderTenantMade       Point = "provider-tenant-made"
	ProviderCredentialsSent  Point = "provider-credentials-sent"
	ProviderGranted          Point = "provider-granted"
	ProviderChangeDecided    Point = "provider-change-decided"
	ProviderChangeAgreed     Point = "provider-change-agreed"
	ProviderReleased         Point = "provider-released"
	ProviderGone             Point = "provider-gone"
	ProviderTenantDeleted    Point = "provider-tenant-deleted"
	ProviderNamespaceDeleted Point = "provider-namespace-deleted"
	ProviderDeleted          Point = "provider-deleted"
	ExcessNoted              Point = "excess-noted"
	ExcessCordoned           Point = "excess-cordoned"
	ExcessShadowPodDeleted   Point = "excess-shadowpod-deleted"
	ExcessPodEvicted         Point = "excess-pod-evicted"
)

// Consumer lists every point of the agent that consumes, in the order of a
// reservation's life.
var Consumer = []Point{
	RequestNoted, RequestAnswered, RequestInstructed,
	ConsumerNamespaceMade, ConsumerAnswered, ConsumerIdentityMade, ConsumerSliceMade, ConsumerOffloadingMade, ConsumerReady,
	RequestGivenBack,
	ConsumerDrainBegun, ConsumerNodeCordoned,
	ConsumerSliceDeleted, ConsumerOffloadingGone, ConsumerIdentityDeleted, ConsumerNamespaceDeleted, ConsumerGone, ConsumerDeleted,
	RequestLetGo,
}

// Draining lists the points of that agent at which pods have to leave a virtual node.
var Draining = []Point{ConsumerPodsEvicted, ConsumerPodsDeleted}

// Provider lists every point of the agent that provides, in the same order.
var Provider = []Point{
	ProviderAdmitted, ProviderRightsOpened, ProviderAcknowledged, ProviderNamespaceMade, ProviderNonceMade, ProviderChallenged,
	ProviderTenantMade, ProviderCredentialsSent, ProviderGranted,
	ProviderChangeDecided, ProviderChangeAgreed,
	ProviderReleased, ProviderGone, ProviderTenantDeleted, ProviderNamespaceDeleted, ProviderDeleted,
}

// Excess lists the points of that agent at which pods exceed what was granted.
var Excess = []Point{ExcessNoted, ExcessCordoned, ExcessShadowPodDeleted, ExcessPodEvicted}

// Points of the broker.
const (
	BrokerDecided        Point = "broker-decided"
	BrokerReserved       Point = "broker-reserved"
	BrokerMessageKept    Point = "broker-message-kept"
	BrokerReported       Point = "broker-reported"
	BrokerReleased       Point = "broker-released"
	BrokerShown          Point = "broker-shown"
	BrokerObjectReserved Point = "broker-object-reserved"
	BrokerObjectReleased Point = "broker-object-released"
	BrokerObjectOver     Point = "broker-object-over"
)

// Broker lists every point of the broker: those of a reservation that an agent asks
// for, then those of one that is made in the broker's cluster.
var Broker = []Point{
	BrokerDecided, BrokerReserved, BrokerShown, BrokerMessageKept, BrokerReported, BrokerReleased,
	BrokerObjectReserved, BrokerObjectReleased, BrokerObjectOver,
}

// Points around what the broker writes down: its journal, what time brings, and what
// it shows.
const (
	// JournalAppending: a batch is about to be written.
	JournalAppending Point = "journal-appending"
	// JournalAppended: it is stored, and nobody was told.
	JournalAppended Point = "journal-appended"
	// JournalSealed: the copy of a full tail is stored, its successor is not.
	JournalSealed Point = "journal-sealed"
	// JournalOpened: a former writer is fenced off, and nothing is served.
	JournalOpened Point = "journal-opened"
	// CheckpointWritten: a checkpoint is stored, and no record names it.
	CheckpointWritten Point = "journal-checkpoint-written"
	// CheckpointValid: one does, and what it makes unnecessary is still there.
	CheckpointValid    Point = "journal-checkpoint-valid"
	BrokerAdvertised   Point = "broker-advertised"
	BrokerExpired      Point = "broker-expired"
	BrokerWithdrawn    Point = "broker-withdrawn"
	BrokerStatusDue    Point = "broker-status-due"
	BrokerStatusShown  Point = "broker-status-shown"
	BrokerFiguresShown Point = "broker-figures-shown"
)

// Durable lists them.
var Durable = []Point{
	JournalAppending, JournalAppended, JournalSealed, JournalOpened, CheckpointWritten, CheckpointValid,
	BrokerAdvertised, BrokerExpired, BrokerWithdrawn, BrokerStatusDue, BrokerStatusShown, BrokerFiguresShown,
}

// After is the point, passed so often in every process before it kills.
func (p Point) After(passes int) Point { return Point(fmt.Sprintf("%s:%d", p, passes)) }

// Points of an agent that is enrolled or renews its certificate.
const (
	IdentityPrepared  Point = "identity-prepared"
	IdentityAnswered  Point = "identity-answered"
	IdentityStored    Point = "identity-stored"
	IdentityPublished Point = "identity-published"
)

// Identity lists every point of an agent's identity, in the order of an enrolment.
var Identity = []Point{IdentityPrepared, IdentityAnswered, IdentityStored, IdentityPublished}

// Arm is the environment that arms points, with a folder for their traces.
func Arm(once string, points ...Point) []string {
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = string(p)
	}
	return []string{EnvName + "=" + strings.Join(names, ","), EnvOnce + "=" + once}
}

// armed counts how often each armed point may still be passed.
var armed = parse(os.Getenv(EnvName))

func parse(text string) map[Point]*atomic.Int64 {
	points := map[Point]*atomic.Int64{}
	for name := range strings.SplitSeq(text, ",") {
		name, passes, _ := strings.Cut(name, ":")
		left := &atomic.Int64{}
		if n, err := strconv.ParseInt(passes, 10, 64); err == nil {
			left.Store(n)
		}
		points[Point(name)] = left
	}
	return points
}

// Hit kills the process with SIGKILL if p is armed and was not hit before.
func Hit(p Point) {
	if left := armed[p]; left != nil && left.Add(-1) < 0 {
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
