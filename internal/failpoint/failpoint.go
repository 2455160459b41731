// Package failpoint lets a test kill the process at a named point of the code, to prove that a restarted process
// completes what the killed one began.
//
// It does nothing unless the environment variable LRB_FAILPOINT lists points, separated by commas. A point written as
// "point:3" kills the process only when it is reached for the fourth time. LRB_FAILPOINT_ONCE names a folder for
// markers: before a point kills the process, it creates a marker file there. A point with a marker does not kill again,
// so that the restarted process gets past it.
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

// EnvName is the environment variable that lists the armed points, EnvOnce is the one that names the folder for
// markers.
const (
	EnvName = "LRB_FAILPOINT"
	EnvOnce = "LRB_FAILPOINT_ONCE"
)

// Point is the name of a place in the code at which a test can kill the process.
type Point string

// Points of the consuming agent.
const (
	RequestNoted             Point = "request-noted"
	RequestAnswered          Point = "request-answered"
	RequestInstructed        Point = "request-instructed"
	RequestKeyClosed         Point = "request-key-closed"
	RequestAttemptBegun      Point = "request-attempt-begun"
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
	ProvisioningRequested    Point = "provisioning-requested"
	ProvisioningShown        Point = "provisioning-shown"
	BurstNoted               Point = "burst-noted"
	BurstRequested           Point = "burst-requested"
	BurstNodeOpened          Point = "burst-node-opened"
	BurstGrown               Point = "burst-grown"
	BurstReverted            Point = "burst-reverted"
	BurstCordoned            Point = "burst-cordoned"
	BurstEnded               Point = "burst-ended"
)

// Points of the providing agent.
const (
	ProviderAdmitted         Point = "provider-admitted"
	ProviderSliceAdmitted    Point = "provider-slice-admitted"
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

// Consumer lists the points of the consuming agent, in the order in which a reservation passes them if its request
// first failed and was then edited. The points in Draining are not included.
var Consumer = []Point{
	RequestKeyClosed, RequestAttemptBegun, RequestNoted, RequestAnswered, RequestInstructed,
	ConsumerNamespaceMade, ConsumerAnswered, ConsumerIdentityMade, ConsumerSliceMade, ConsumerOffloadingMade, ConsumerReady,
	RequestGivenBack,
	ConsumerDrainBegun, ConsumerNodeCordoned,
	ConsumerSliceDeleted, ConsumerOffloadingGone, ConsumerIdentityDeleted, ConsumerNamespaceDeleted, ConsumerGone, ConsumerDeleted,
	RequestLetGo,
}

// Provisioning lists the points of the consuming agent at which it serves a ProvisioningRequest.
var Provisioning = []Point{ProvisioningRequested, ProvisioningShown}

// Bursting lists the points of the consuming agent at which it carries out a BurstPolicy, in the order of a burst whose
// provider refuses to enlarge the request.
var Bursting = []Point{BurstNoted, BurstRequested, BurstNodeOpened, BurstGrown, BurstReverted, BurstCordoned, BurstEnded}

// Draining lists the points of the consuming agent at which it evicts or deletes pods of a virtual node. A reservation
// without pods does not pass them.
var Draining = []Point{ConsumerPodsEvicted, ConsumerPodsDeleted}

// Provider lists the points of the providing agent, in the order in which a reservation passes them. The points in
// Excess are not included.
var Provider = []Point{
	ProviderSliceAdmitted, ProviderAdmitted, ProviderAcknowledged, ProviderNamespaceMade, ProviderNonceMade, ProviderChallenged,
	ProviderTenantMade, ProviderCredentialsSent, ProviderGranted,
	ProviderChangeDecided, ProviderChangeAgreed,
	ProviderReleased, ProviderGone, ProviderTenantDeleted, ProviderNamespaceDeleted, ProviderDeleted,
}

// Excess lists the points of the providing agent that it passes when the pods of a placement exceed what was granted.
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
	// BrokerObjectAttempt is passed when the status of an edited Reservation names the next attempt, for which nothing
	// is reserved yet.
	BrokerObjectAttempt Point = "broker-object-attempt"
)

// Broker lists the points of the broker: first those of a reservation that an agent requests, then those of a
// Reservation that is created in the broker's cluster.
var Broker = []Point{
	BrokerDecided, BrokerReserved, BrokerShown, BrokerMessageKept, BrokerReported, BrokerReleased,
	BrokerObjectReserved, BrokerObjectReleased, BrokerObjectOver,
}

// Points of the broker's journal, its timers and the objects that it writes.
const (
	// JournalAppending is passed when a batch of records is about to be written.
	JournalAppending Point = "journal-appending"
	// JournalAppended is passed when a batch of records is stored and no caller has been answered yet.
	JournalAppended Point = "journal-appended"
	// JournalSealed is passed when a copy of the full tail is stored and the next tail is not stored yet.
	JournalSealed Point = "journal-sealed"
	// JournalOpened is passed when the previous writer can no longer write and nothing is served yet.
	JournalOpened Point = "journal-opened"
	// CheckpointWritten is passed when a checkpoint is stored and no record names it yet.
	CheckpointWritten Point = "journal-checkpoint-written"
	// CheckpointValid is passed when a record names the checkpoint and the records that it replaces still exist.
	CheckpointValid    Point = "journal-checkpoint-valid"
	BrokerAdvertised   Point = "broker-advertised"
	BrokerExpired      Point = "broker-expired"
	BrokerWithdrawn    Point = "broker-withdrawn"
	BrokerStatusDue    Point = "broker-status-due"
	BrokerStatusShown  Point = "broker-status-shown"
	BrokerFiguresShown Point = "broker-figures-shown"
)

// Durable lists the points of the broker's journal, of its timers and of the objects that it writes.
var Durable = []Point{
	JournalAppending, JournalAppended, JournalSealed, JournalOpened, CheckpointWritten, CheckpointValid,
	BrokerAdvertised, BrokerExpired, BrokerWithdrawn, BrokerStatusDue, BrokerStatusShown, BrokerFiguresShown,
}

// Points of the broker's notifications.
const (
	// EventDelivered is passed when a receiver has accepted a message and the cursor was not moved yet.
	EventDelivered Point = "event-delivered"
	// CursorsStored is passed when the cursors of all channels were stored.
	CursorsStored Point = "cursors-stored"
	// FileWritten is passed when records were written to an exported file and may not be on the disk yet.
	FileWritten Point = "file-written"
	// FileSealed is passed when a complete file was compressed and its open one still exists.
	FileSealed Point = "file-sealed"
)

// Notifying lists the points at which the broker delivers events. It passes them only with channels.
var Notifying = []Point{EventDelivered, CursorsStored}

// Exporting lists the points at which the broker writes files. It passes them only with a channel of files.
var Exporting = []Point{FileWritten, FileSealed}

// The broker passes BrokerForgetting after it has ended all placements of a cluster that is gone for good. It passes
// BrokerForgotten after it has forgotten the cluster, while the cluster's object still exists.
const (
	BrokerForgetting Point = "broker-forgetting"
	BrokerForgotten  Point = "broker-forgotten"
)

// Forgetting lists the points at which the broker removes a cluster that is gone for good.
var Forgetting = []Point{BrokerForgetting, BrokerForgotten}

// After returns p in a form for Arm that kills the process only after it has passed p the given number of times.
func (p Point) After(passes int) Point { return Point(fmt.Sprintf("%s:%d", p, passes)) }

// Points of an agent that enrols or renews its certificate.
const (
	IdentityPrepared  Point = "identity-prepared"
	IdentityAnswered  Point = "identity-answered"
	IdentityStored    Point = "identity-stored"
	IdentityPublished Point = "identity-published"
)

// Identity lists the points of an agent that enrols or renews its certificate, in the order in which an enrolment
// passes them.
var Identity = []Point{IdentityPrepared, IdentityAnswered, IdentityStored, IdentityPublished}

// Arm returns the environment variables with which a started process is killed at the given points. The parameter once
// is the folder for the markers that make each point kill only once.
func Arm(once string, points ...Point) []string {
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = string(p)
	}
	return []string{EnvName + "=" + strings.Join(names, ","), EnvOnce + "=" + once}
}

// armed holds, for each armed point, how often the process may still pass it.
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

// Hit kills the process with SIGKILL if p is armed, has been passed often enough, and has left no marker of an earlier
// kill.
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
		_ = marker.Close() // an error is harmless, because only the existence of the file counts
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // a process may always signal itself
	select {}
}
