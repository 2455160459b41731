// Package failpoint lets a test kill the process at a named step, to prove that a restarted process completes what
// the killed one began.
//
// It does nothing unless LRB_FAILPOINT lists points, separated by commas. "point:3" lets the process pass the point
// three times before it kills. LRB_FAILPOINT_ONCE is a folder for markers: a point that has left its marker there
// does not kill again, so the restarted process passes.
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

// Environment variables that arm points.
const (
	EnvName = "LRB_FAILPOINT"
	EnvOnce = "LRB_FAILPOINT_ONCE"
)

// Point is the name of a step.
type Point string

// Points of the consuming agent.
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

// Points of the providing agent.
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

// Consumer lists every point of the consuming agent, in the order of a reservation's life.
var Consumer = []Point{
	RequestNoted, RequestAnswered, RequestInstructed,
	ConsumerNamespaceMade, ConsumerAnswered, ConsumerIdentityMade, ConsumerSliceMade, ConsumerOffloadingMade, ConsumerReady,
	RequestGivenBack,
	ConsumerDrainBegun, ConsumerNodeCordoned,
	ConsumerSliceDeleted, ConsumerOffloadingGone, ConsumerIdentityDeleted, ConsumerNamespaceDeleted, ConsumerGone, ConsumerDeleted,
	RequestLetGo,
}

// Draining lists the points of the consuming agent at which pods leave a virtual node.
var Draining = []Point{ConsumerPodsEvicted, ConsumerPodsDeleted}

// Provider lists every point of the providing agent, in the order of a reservation's life.
var Provider = []Point{
	ProviderAdmitted, ProviderRightsOpened, ProviderAcknowledged, ProviderNamespaceMade, ProviderNonceMade, ProviderChallenged,
	ProviderTenantMade, ProviderCredentialsSent, ProviderGranted,
	ProviderChangeDecided, ProviderChangeAgreed,
	ProviderReleased, ProviderGone, ProviderTenantDeleted, ProviderNamespaceDeleted, ProviderDeleted,
}

// Excess lists the points of the providing agent at which pods exceed a grant.
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

// Broker lists every point of the broker: first for reservations that an agent requests, then for those created in
// the broker's cluster.
var Broker = []Point{
	BrokerDecided, BrokerReserved, BrokerShown, BrokerMessageKept, BrokerReported, BrokerReleased,
	BrokerObjectReserved, BrokerObjectReleased, BrokerObjectOver,
}

// Points of the broker's journal, its timers and the objects that it writes.
const (
	// JournalAppending: a batch is about to be written.
	JournalAppending Point = "journal-appending"
	// JournalAppended: the batch is stored, and no caller has been answered.
	JournalAppended Point = "journal-appended"
	// JournalSealed: the copy of a full tail is stored, its successor is not.
	JournalSealed Point = "journal-sealed"
	// JournalOpened: the previous writer is fenced off, and nothing is served yet.
	JournalOpened Point = "journal-opened"
	// CheckpointWritten: a checkpoint is stored, and no record names it.
	CheckpointWritten Point = "journal-checkpoint-written"
	// CheckpointValid: a record names the checkpoint, and the records that it replaces still exist.
	CheckpointValid    Point = "journal-checkpoint-valid"
	BrokerAdvertised   Point = "broker-advertised"
	BrokerExpired      Point = "broker-expired"
	BrokerWithdrawn    Point = "broker-withdrawn"
	BrokerStatusDue    Point = "broker-status-due"
	BrokerStatusShown  Point = "broker-status-shown"
	BrokerFiguresShown Point = "broker-figures-shown"
)

// Durable lists the points of the journal, the timers and the written objects.
var Durable = []Point{
	JournalAppending, JournalAppended, JournalSealed, JournalOpened, CheckpointWritten, CheckpointValid,
	BrokerAdvertised, BrokerExpired, BrokerWithdrawn, BrokerStatusDue, BrokerStatusShown, BrokerFiguresShown,
}

// Points at which the broker removes a cluster that is gone for good: everything there was given up, and the cluster is
// forgotten while its object still exists.
const (
	BrokerForgetting Point = "broker-forgetting"
	BrokerForgotten  Point = "broker-forgotten"
)

// Forgetting lists the points at which the broker removes a cluster.
var Forgetting = []Point{BrokerForgetting, BrokerForgotten}

// After returns p, armed to kill only after the process has passed it this many times.
func (p Point) After(passes int) Point { return Point(fmt.Sprintf("%s:%d", p, passes)) }

// Points of an agent that enrols or renews its certificate.
const (
	IdentityPrepared  Point = "identity-prepared"
	IdentityAnswered  Point = "identity-answered"
	IdentityStored    Point = "identity-stored"
	IdentityPublished Point = "identity-published"
)

// Identity lists every point of an agent's identity, in the order of an enrolment.
var Identity = []Point{IdentityPrepared, IdentityAnswered, IdentityStored, IdentityPublished}

// Arm returns the environment variables that arm points. once is the folder for markers.
func Arm(once string, points ...Point) []string {
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = string(p)
	}
	return []string{EnvName + "=" + strings.Join(names, ","), EnvOnce + "=" + once}
}

// armed maps each armed point to the number of passes that it still allows.
var armed = parsePoints(os.Getenv(EnvName))

func parsePoints(text string) map[Point]*atomic.Int64 {
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

// Hit kills the process with SIGKILL if p is armed and has not killed before.
func Hit(p Point) {
	if left := armed[p]; left != nil && left.Add(-1) < 0 {
		killProcess(p)
	}
}

func killProcess(p Point) {
	if dir := os.Getenv(EnvOnce); dir != "" {
		marker, err := os.OpenFile(filepath.Join(dir, string(p)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		_ = marker.Close() // only its existence counts
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // a process may always signal itself
	select {}
}
