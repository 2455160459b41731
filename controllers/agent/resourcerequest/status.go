package resourcerequest

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// These tell users how to retry a request that failed, and how to get capacity after a granted
// reservation has ended.
const (
	retryAdvice   = "To try again, edit the request, or delete and create it."
	overAdvice    = "It has ended: to get capacity again, edit the request, or delete and create it."
	releaseAdvice = "To get capacity again, create another request."
)

// absence is a situation in which a request has no capacity.
type absence struct {
	phase agentv1alpha1.ResourceRequestPhase
	// reason is that of the condition Reserved, and of Ready unless ready is set.
	reason, ready string
	// unsure is true if the broker may still hold capacity: Reserved is Unknown instead of False.
	unsure bool
	// advice says what to do. Only condition Ready and the status message contain it.
	advice string
}

var (
	absentPending       = absence{phase: agentv1alpha1.RequestPending, reason: agentv1alpha1.ReasonPending}
	absentAwaitingQuote = absence{phase: agentv1alpha1.RequestPending, reason: agentv1alpha1.ReasonAwaitingQuote}
	absentQueueFull     = absence{phase: agentv1alpha1.RequestPending, reason: agentv1alpha1.ReasonQueueFull}
	absentQueued        = absence{phase: agentv1alpha1.RequestQueued, reason: agentv1alpha1.ReasonQueued}
	absentPreempted     = absence{phase: agentv1alpha1.RequestReleasing, reason: agentv1alpha1.ReasonPreempted, ready: agentv1alpha1.ReasonReleasing}
	absentUnplaceable   = absence{phase: agentv1alpha1.RequestReleasing, reason: agentv1alpha1.ReasonFailed, ready: agentv1alpha1.ReasonReleasing}
	absentLost          = absence{phase: agentv1alpha1.RequestReleasing, reason: agentv1alpha1.ReasonReleasing}
	absentGivenBack     = absence{phase: agentv1alpha1.RequestReleasing, reason: agentv1alpha1.ReasonReleased, ready: agentv1alpha1.ReasonReleasing}
	absentUnconfirmed   = absence{phase: agentv1alpha1.RequestReleasing, reason: agentv1alpha1.ReasonBrokerUnreachable, unsure: true}
	absentReleased      = absence{phase: agentv1alpha1.RequestReleased, reason: agentv1alpha1.ReasonReleased, advice: releaseAdvice}
	absentOver          = absence{phase: agentv1alpha1.RequestReleased, reason: agentv1alpha1.ReasonReleased, advice: overAdvice}
	absentQuoteEnded    = absence{phase: agentv1alpha1.RequestFailed, reason: agentv1alpha1.ReasonQuoteEnded, advice: quoteAdvice}
)

func absentFailed(reason string) absence {
	return absence{phase: agentv1alpha1.RequestFailed, reason: reason, advice: retryAdvice}
}

// setAbsent records that the request has no capacity, and why. Messages are in one line, because
// line breaks would split the rows of kubectl get.
func (e editor) setAbsent(a absence, why string) {
	s := &e.rr.Status
	s.Phase = a.phase
	if a.phase != agentv1alpha1.RequestQueued {
		s.Queue = nil
	}
	if isOver(a.phase) {
		e.clearPlacement()
	}
	why = strings.Join(strings.FieldsFunc(why, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	status := metav1.ConditionFalse
	if a.unsure {
		status = metav1.ConditionUnknown
	}
	e.setCondition(agentv1alpha1.ConditionReserved, status, a.reason, why)
	if a.advice != "" {
		why = strings.TrimSuffix(why, ".") + ". " + a.advice
	}
	e.setReady(metav1.ConditionFalse, cmp.Or(a.ready, a.reason), why)
}

// editor changes the status of a request in memory. Each of its methods records one fact.
type editor struct {
	rr  *agentv1alpha1.ResourceRequest
	now time.Time
	// observed is status.observedGeneration before this reconcile.
	observed int64
	// obstacle is why no other cluster can take over a request that may leave its provider.
	obstacle string
}

func (r *Reconciler) editStatus(rr *agentv1alpha1.ResourceRequest) editor {
	e := editor{rr: rr, now: r.options.Clock.Now(), observed: rr.Status.ObservedGeneration}
	rr.Status.ObservedGeneration = rr.Generation
	return e
}

// leaveEditUnobserved restores the previous status.observedGeneration, because the broker has not
// considered the latest edit of the request.
func (e editor) leaveEditUnobserved() {
	if e.observed != 0 {
		e.rr.Status.ObservedGeneration = e.observed
	}
}

func (e editor) setReserved(a *v1.Reservation) {
	s := &e.rr.Status
	s.Phase = agentv1alpha1.RequestReserved
	s.ReservationName = a.Name
	s.Queue = nil
	if len(a.Candidates) > 0 {
		s.Candidates = wire.ClipCandidates(a.Candidates)
		if meta.IsStatusConditionTrue(s.Conditions, agentv1alpha1.ConditionChanged) {
			dropPrices(s.Candidates)
		}
	}
	if !a.ReservedAt.IsZero() {
		at := metav1.NewTime(a.ReservedAt.Truncate(time.Second))
		s.ReservedAt = &at
	}
	s.RenewBy = inbox.KeepExpiry(s.RenewBy, wire.ExpiresAt(a.LeaseSeconds, e.now))
	e.setHeldBy(a.Instruction.ProviderID)
}

// dropPrices removes the candidates' prices, which are for the amounts and the duration before a
// change.
func dropPrices(candidates []brokerv1alpha1.Candidate) {
	for i := range candidates {
		candidates[i].DropPrice()
	}
}

// setCost keeps the last known cost if cost is nil, even after the release.
func (e editor) setCost(cost *brokerv1alpha1.ReservationCost) {
	if cost != nil {
		e.rr.Status.Cost = cost.DeepCopy()
	}
}

func (e editor) setHeldBy(provider string) {
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionTrue, agentv1alpha1.ReasonReserved,
		fmt.Sprintf("capacity is held on %q as reservation %q", provider, e.rr.Status.ReservationName))
}

func (e editor) clearPlacement() {
	s := &e.rr.Status
	s.TargetClusterID, s.TargetClusterEndpoint, s.NodeName = "", "", ""
	s.Granted, s.RenewBy, s.IdleSince = nil, nil, nil
	for _, kind := range []string{
		agentv1alpha1.ConditionPeered, agentv1alpha1.ConditionNodeReady, agentv1alpha1.ConditionHealthy, agentv1alpha1.ConditionNetworkConnected,
		agentv1alpha1.ConditionProviderReachable,
	} {
		meta.RemoveStatusCondition(&s.Conditions, kind)
	}
}

// setWaiting records that the broker is still deciding, has queued the request, or found no candidate.
func (e editor) setWaiting(a *v1.Reservation) {
	message := cmp.Or(a.Message, "the broker is still deciding")
	s := &e.rr.Status
	s.Candidates = wire.ClipCandidates(a.Candidates)
	if a.Phase == v1.ReservationPhaseFailed {
		e.leaveEditUnobserved()
		e.setAbsent(absentFailed(agentv1alpha1.ReasonNoCandidate), message)
		return
	}
	s.ReservationName = a.Name
	e.setCost(a.Cost)
	if a.Phase == v1.ReservationPhaseQueued {
		e.setQueued(a.Queue)
		e.setAbsent(absentQueued, message)
		return
	}
	e.setAbsent(absentPending, message)
}

func (e editor) setRefused(no *fault.Error) {
	e.rr.Status.Candidates = wire.ClipCandidates(no.Candidates)
	switch no.Reason {
	case fault.NoCandidate:
		e.setAbsent(absentFailed(agentv1alpha1.ReasonNoCandidate), explainRefusal(no))
	case fault.Invalid:
		e.setAbsent(absentFailed(agentv1alpha1.ReasonInvalid), no.Detail)
	default:
		e.setAbsent(absentFailed(agentv1alpha1.ReasonRefused), no.Detail)
	}
}

// explainRefusal adds the reason of each candidate that is not part of the broker's explanation.
func explainRefusal(no *fault.Error) string {
	text := no.Detail
	for _, c := range no.Candidates {
		if reason := cmp.Or(c.ClusterID, "another cluster") + ": " + cmp.Or(c.Message, c.Reason); !strings.Contains(no.Detail, reason) {
			text += "; " + reason
		}
	}
	return text
}

// setUnreachable records that the broker could not be asked, or could not decide. If there is a
// reservation already, it stays, and so do its workloads.
func (e editor) setUnreachable(err error) {
	reason, cause := agentv1alpha1.ReasonBrokerUnreachable, "the broker does not answer"
	if no, refused := errors.AsType[*fault.Error](err); refused && no.Reason == fault.TooManyRequests {
		reason, cause, err = agentv1alpha1.ReasonOverBudget, "this cluster exceeds its budget at the broker", no
	}
	if e.rr.Status.ReservationName == "" {
		e.setAbsent(absence{phase: agentv1alpha1.RequestPending, reason: reason}, cause+"; the request is repeated until it is accepted: "+err.Error())
		return
	}
	e.setUnsure(reason, cause, err)
}

// setUnsure leaves what the status says about the reservation, and adds why it could not be updated.
func (e editor) setUnsure(reason, what string, err error) {
	e.leaveEditUnobserved()
	old := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	if old != nil && old.Status == metav1.ConditionTrue {
		e.setCondition(old.Type, old.Status, reason, "capacity is held, but "+what+"; running workloads are not affected: "+err.Error())
	}
}

func (e editor) setEnded(a *v1.Reservation) {
	e.setCost(a.Cost)
	if a.EndReason.Valid() {
		e.setEnding(string(a.EndReason), "the broker has ended the reservation: "+a.Message)
	}
	e.leaveEditUnobserved()
	switch a.EndReason {
	case v1.ReservationEndReasonFailed:
		e.setAbsent(absentUnplaceable, "the broker found no other cluster: "+a.Message)
	case v1.ReservationEndReasonPreempted:
		e.setCondition(agentv1alpha1.ConditionPreempted, metav1.ConditionTrue, agentv1alpha1.ReasonPreempted, a.Message)
		e.setAbsent(absentPreempted, "the broker has ended the reservation: "+a.Message)
	case v1.ReservationEndReasonIdle:
		e.rr.Status.IdleSince = nil
		e.setCondition(agentv1alpha1.ConditionIdle, metav1.ConditionTrue, agentv1alpha1.ReasonIdle, a.Message)
		fallthrough
	default:
		e.setLost(a.Message)
	}
}

// setLost leads to the release of the request's instructions.
func (e editor) setLost(why string) {
	e.leaveEditUnobserved()
	message := "the broker has ended the reservation"
	if why != "" {
		message += ": " + why
	}
	e.setAbsent(absentLost, message)
}

// setOver keeps the reason for the end in the status.
func (e editor) setOver() {
	c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	switch {
	case c != nil && (c.Reason == agentv1alpha1.ReasonFailed || c.Reason == agentv1alpha1.ReasonPreempted):
		e.setAbsent(absence{phase: agentv1alpha1.RequestFailed, reason: c.Reason, advice: overAdvice}, c.Message)
	case c != nil && c.Reason == agentv1alpha1.ReasonReleasing:
		e.setAbsent(absentOver, c.Message)
	default:
		e.setAbsent(absentOver, "the reservation is over")
	}
}

// mirrorInstructions also explains which namespaces cannot be offloaded.
func (e editor) mirrorInstructions(all []agentv1alpha1.ReservationInstruction, access namespaces.Access) {
	s := &e.rr.Status
	current := currentOf(all)
	s.Granted = nil
	e.setDrained(all)
	e.setLeaving(all)
	switch {
	case isOver(s.Phase):
		return
	case current == nil && s.Phase == agentv1alpha1.RequestReleasing:
		e.setOver()
		return
	case current == nil, s.Phase == agentv1alpha1.RequestQueued && !isStanding(current):
		return
	}
	moved := e.hasMoved(current)
	if s.Phase != agentv1alpha1.RequestReleasing {
		e.setNotice(current)
		e.setExcess(current)
		e.setIdle(current)
	}
	s.TargetClusterID = current.Spec.TargetClusterID
	s.TargetClusterEndpoint = current.Spec.TargetClusterEndpoint
	s.ExpiresAt = current.Spec.ExpiresAt
	e.setCost(current.Spec.Cost)
	s.NodeName = current.Status.NodeName
	e.copyConditions(current)
	e.setReachable(all)
	e.copyEnding(all, current, moved)
	if c := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReserved); c != nil && c.Reason == agentv1alpha1.ReasonReserved {
		e.setHeldBy(s.TargetClusterID)
	}
	if why := explainAccess(access, e.rr.Namespace); why != "" {
		e.setCondition(agentv1alpha1.ConditionOffloading, metav1.ConditionFalse, agentv1alpha1.ReasonNamespaceNotOpted, why)
	}
	e.derivePhase(current)
	e.setGranted(current)
}

func (e editor) hasMoved(current *agentv1alpha1.ReservationInstruction) bool {
	s := &e.rr.Status
	return s.TargetClusterID != "" && s.TargetClusterID != current.Spec.TargetClusterID || s.NodeName != "" && s.NodeName != current.Name
}

// copied lists the conditions of the placement that the request shows. Those that are fleeting are
// removed from the request if the placement does not have them.
var copied = []struct {
	kind     string
	fleeting bool
}{
	{agentv1alpha1.ConditionPeered, false},
	{agentv1alpha1.ConditionNodeReady, false},
	{agentv1alpha1.ConditionOffloading, false},
	{agentv1alpha1.ConditionPeeringSkipped, false},
	{agentv1alpha1.ConditionHealthy, true},
	{agentv1alpha1.ConditionNetworkConnected, true},
}

func (e editor) copyConditions(current *agentv1alpha1.ReservationInstruction) {
	for _, row := range copied {
		if c := meta.FindStatusCondition(current.Status.Conditions, row.kind); c != nil {
			e.setCondition(c.Type, c.Status, c.Reason, c.Message)
		} else if row.fleeting {
			meta.RemoveStatusCondition(&e.rr.Status.Conditions, row.kind)
		}
	}
}

// setReachable sets the condition ProviderReachable to false while a provider is silent. It sets
// the condition to true once that provider has reported again, or another provider has taken over.
// A request whose providers were never silent does not get the condition.
func (e editor) setReachable(all []agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionProviderReachable
	target, lost, before := e.rr.Status.TargetClusterID, findOldest(all, isSilent), meta.FindStatusCondition(e.rr.Status.Conditions, kind)
	if lost != nil {
		reason, then := e.describeLoss(lost, otherStanding(all, lost))
		e.setCondition(kind, metav1.ConditionFalse, reason, fmt.Sprintf("%q has been silent since %s; its capacity stays reserved, and %s",
			lost.Spec.TargetClusterID, lost.Spec.ProviderSilentSince.UTC().Format(time.RFC3339), then))
		return
	}
	if before == nil || before.Status != metav1.ConditionFalse {
		return
	}
	if silent := silentProvider(before.Message); silent != "" && silent != target {
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q has taken over from %q, which was silent", target, silent))
		return
	}
	e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonProviderBack, fmt.Sprintf("%q has reported again", target))
}

// silentProvider returns the name of the provider at the beginning of a message that setReachable
// wrote; "" if the message begins with no name. After another provider has taken over, only this
// message still names the silent provider.
func silentProvider(message string) string {
	quoted, err := strconv.QuotedPrefix(message)
	if err != nil {
		return ""
	}
	provider, _ := strconv.Unquote(quoted) // cannot fail, because QuotedPrefix returned it
	return provider
}

// describeLoss returns a reason and the end of a message. next is the instruction that takes over, if any.
func (e editor) describeLoss(lost, next *agentv1alpha1.ReservationInstruction) (reason, then string) {
	switch {
	case next != nil:
		return agentv1alpha1.ReasonMigrating, fmt.Sprintf("%q takes over once its virtual node is Ready", next.Spec.TargetClusterID)
	case e.rr.Spec.Healing == brokerv1alpha1.HealingWait:
		return agentv1alpha1.ReasonProviderSilent, "the request waits until the provider returns, or until it expires or is deleted"
	default:
		return agentv1alpha1.ReasonProviderSilent, e.describeMove(lost)
	}
}

// describeMove says when a request moves from the placement of inst or why it cannot, and what happens meanwhile.
func (e editor) describeMove(inst *agentv1alpha1.ReservationInstruction) string {
	text := "the request moves to another cluster with room"
	switch {
	case e.obstacle != "":
		text = "the request cannot move to another cluster: " + e.obstacle
	case inst.Spec.MoveAt != nil && inst.Spec.MoveAt.After(e.now):
		text += " after " + inst.Spec.MoveAt.UTC().Format(time.RFC3339)
	}
	return text + "; the broker looks for one every 30s, and Kubernetes evicts the pods of a node that is not Ready after 5m, unless they tolerate it for longer"
}

func isSilent(inst *agentv1alpha1.ReservationInstruction) bool {
	return isStanding(inst) && inst.Spec.ProviderSilentSince != nil
}

func findOldest(all []agentv1alpha1.ReservationInstruction, matches func(*agentv1alpha1.ReservationInstruction) bool) *agentv1alpha1.ReservationInstruction {
	var oldest *agentv1alpha1.ReservationInstruction
	for i := range all {
		if next := &all[i]; matches(next) && (oldest == nil || next.Spec.Placement < oldest.Spec.Placement) {
			oldest = next
		}
	}
	return oldest
}

func otherStanding(all []agentv1alpha1.ReservationInstruction, one *agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	for i := range all {
		if next := &all[i]; isStanding(next) && next.Name != one.Name {
			return next
		}
	}
	return nil
}

func (e editor) derivePhase(current *agentv1alpha1.ReservationInstruction) {
	s := &e.rr.Status
	node := meta.FindStatusCondition(current.Status.Conditions, agentv1alpha1.ConditionNodeReady)
	skipped := meta.FindStatusCondition(current.Status.Conditions, agentv1alpha1.ConditionPeeringSkipped)
	reserved := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReserved)
	if s.Phase == agentv1alpha1.RequestReleasing || reserved == nil || reserved.Status != metav1.ConditionTrue {
		return // the condition Ready already explains the state
	}
	s.Phase = agentv1alpha1.RequestReserved
	switch {
	case !isStanding(current):
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing,
			fmt.Sprintf("the placement on %q is being removed; asking the broker for another one", s.TargetClusterID))
	case node != nil && node.Status == metav1.ConditionTrue:
		s.Phase = agentv1alpha1.RequestActive
		e.setUsable(node)
	case skipped != nil && skipped.Status == metav1.ConditionTrue:
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonPeeringSkipped, skipped.Message)
	case node != nil && current.Status.Delivered && current.Spec.MoveAt != nil:
		e.setReady(metav1.ConditionFalse, node.Reason, node.Message+"; "+e.describeMove(current))
	case node != nil:
		e.setReady(metav1.ConditionFalse, node.Reason, node.Message)
	default:
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonPeering,
			fmt.Sprintf("capacity is reserved on %q; waiting for its virtual node", s.TargetClusterID))
	}
}

// setUsable sets Ready only if the request's namespaces are offloaded: their pods cannot use the node otherwise.
func (e editor) setUsable(node *metav1.Condition) {
	offloading := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionOffloading)
	if offloading != nil && offloading.Status != metav1.ConditionTrue {
		e.setReady(metav1.ConditionFalse, offloading.Reason, node.Message+", but "+offloading.Message)
		return
	}
	e.setReady(metav1.ConditionTrue, agentv1alpha1.ReasonNodeReady, node.Message)
}

// currentOf returns the instruction that the status describes: the newest one whose node is Ready,
// or else the newest one that has not ended, or else the newest one. A request has two instructions
// that have not ended while one of them replaces the other, whose provider is silent or whose node
// is no longer Ready.
func currentOf(all []agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	var current *agentv1alpha1.ReservationInstruction
	for i := range all {
		next := &all[i]
		if current == nil || rankOf(next) > rankOf(current) ||
			rankOf(next) == rankOf(current) && next.Spec.Placement > current.Spec.Placement {
			current = next
		}
	}
	return current
}

// rankOf returns 2 for an instruction whose node is Ready, 1 for others that have not ended, and 0 otherwise.
func rankOf(inst *agentv1alpha1.ReservationInstruction) int {
	switch {
	case !isStanding(inst):
		return 0
	case !meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionNodeReady):
		return 1
	default:
		return 2
	}
}

func explainAccess(a namespaces.Access, namespace string) string {
	var parts []string
	if len(a.Closed) > 0 {
		parts = append(parts, fmt.Sprintf("not open to requests of namespace %q: %s; to open: kubectl label namespace %s %s=%s",
			namespace, quoteAll(a.Closed), strings.Join(a.Closed, " "), agentv1alpha1.OffloadLabel, namespace))
	}
	if len(a.LocalOnly) > 0 {
		parts = append(parts, "open only to podOffloadingStrategy Local without podCompliance Enforce: "+quoteAll(a.LocalOnly)+"; only their own requests may have others")
	}
	if len(a.Missing) > 0 {
		parts = append(parts, fmt.Sprintf("namespaces that do not exist: %s; create them with label %s=%s", quoteAll(a.Missing), agentv1alpha1.OffloadLabel, namespace))
	}
	if len(a.System) > 0 {
		parts = append(parts, "system namespaces, which cannot be offloaded: "+quoteAll(a.System))
	}
	return strings.Join(parts, "; ")
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

func (e editor) setReady(status metav1.ConditionStatus, reason, text string) {
	e.setCondition(agentv1alpha1.ConditionReady, status, reason, text)
}

func (e editor) setCondition(kind string, status metav1.ConditionStatus, reason, text string) {
	message.SetCondition(&e.rr.Status.Conditions, kind, status, reason, text, e.rr.Status.ObservedGeneration, e.now)
}
