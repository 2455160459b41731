package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// factList is a list of facts. add ignores a fact without text.
type factList []Fact

func (f *factList) add(name, text string) {
	if text != "" {
		*f = append(*f, Fact{name, text})
	}
}

// demandFacts returns the facts about a Reservation, or about a ResourceRequest in the form of asReservation. node is the
// name of its node, and process the process that carries it out.
func (s *Snapshot) demandFacts(r *brokerv1alpha1.Reservation, node, process string) []Fact {
	var facts factList
	facts.add("requester", r.Spec.RequesterID)
	facts.add("asked by", r.Status.RequestedBy)
	if owner := metav1.GetControllerOf(r); owner != nil {
		facts.add("made for", owner.Kind+" "+owner.Name)
	}
	facts.add("asks for", describeDemand(r))
	if r.Status.Granted != nil {
		facts.add("granted", FormatAmounts(r.Status.Granted.Resources)+" at "+r.Status.TargetClusterID)
	}
	facts.add("queue", s.describeQueue(r.Status.Queue))
	facts.add("behind", s.describeAhead(r.Status.Queue))
	facts.add("reservation", r.Status.ReservationName)
	facts.add("node", node)
	facts.add("held since", s.describeSince(r.Status.ReservedAt))
	facts.add("ends", s.describeEnd(r.Status.ExpiresAt, r.Status.Granted))
	facts.add("idle since", s.describeSince(r.Status.IdleSince))
	facts.add("costs", s.describeCost(r.Status.Cost, r.Status.Granted))
	if r.Generation != r.Status.ObservedGeneration {
		facts.add("waits for", "the "+process+", which has not processed the last edit")
	}
	return facts
}

// placementFacts returns the facts about one side of a placement. role is the part of the other cluster.
func placementFacts(reservation string, number int32, role, other string, amounts corev1.ResourceList) (facts factList) {
	facts.add("reservation", fmt.Sprintf("%s, placement %d", reservation, number))
	facts.add(role, other)
	facts.add("amounts", FormatAmounts(amounts))
	return facts
}

func (s *Snapshot) clusterFacts(c *brokerv1alpha1.ClusterAdvertisement) []Fact {
	var facts factList
	if t := c.Spec.Topology; t != nil {
		facts.add("location", strings.Trim(t.Region+" "+t.Zone, " "))
	}
	facts.add("address", c.Spec.EndpointURL)
	if !meta.IsStatusConditionTrue(c.Status.Conditions, brokerv1alpha1.ConditionFresh) {
		// While the cluster is Fresh, the broker rarely updates the time.
		facts.add("last heard", s.describeSince(c.Status.LastReceived))
	}
	for _, share := range sharesOf(&c.Spec.Resources) {
		facts.add(string(share.Resource), fmt.Sprintf("[%s] %s of %s free, %s reserved, %s own use", Bar(barWidth, share.Reserved, share.Own, share.Allocatable),
			FormatAmount(share.Resource, share.Free), FormatAmount(share.Resource, share.Allocatable), FormatAmount(share.Resource, share.Reserved), FormatAmount(share.Resource, share.Own)))
	}
	facts.add("pending", s.describePending(c))
	facts.add("holds", countNoun(int(c.Status.Reservations), "reservation", "reservations"))
	facts.add("serves", s.describeServed(c.Spec.ClusterID))
	if r := c.Status.Reliability; r != nil {
		facts.add("reliability", fmt.Sprintf("%s of 100: of %s, %d became Ready, %d refused, %d unanswered, %d never Ready, %d dropped",
			cmp.Or(r.Score, "unknown"), countNoun(int(r.Granted), "placement", "placements"), r.Ready, r.Refused, r.Unanswered, r.NeverReady, r.Dropped))
	}
	return facts
}

// describePending returns the number of a cluster's own pods without a node, what they request, and since when the
// first one waits; "" if there are none.
func (s *Snapshot) describePending(c *brokerv1alpha1.ClusterAdvertisement) string {
	if len(c.Status.Pending) == 0 {
		return ""
	}
	requests := maps.Clone(c.Status.Pending)
	pods := requests[corev1.ResourcePods]
	delete(requests, corev1.ResourcePods)
	text := countNoun(int(pods.Value()), "own pod has", "own pods have") + " no node"
	if len(requests) > 0 {
		text += ": " + FormatAmounts(requests)
	}
	if since := s.describeSince(c.Status.PendingSince); since != "" {
		text += ", the first since " + since
	}
	return text
}

// describeServed lists up to ten reservations that a cluster provides, and the number of the others.
func (s *Snapshot) describeServed(clusterID string) string {
	var names []string
	for _, r := range s.Broker.Reservations {
		if r.Status.TargetClusterID == clusterID && r.Status.Granted != nil {
			names = append(names, fmt.Sprintf("%s (%s)", cmp.Or(r.Status.ReservationName, r.Name), r.Spec.RequesterID))
		}
	}
	slices.Sort(names)
	return listFirst(names, 10)
}

func (s *Snapshot) podFacts(pod *corev1.Pod) (phase string, facts factList) {
	facts.add("node", cmp.Or(pod.Spec.NodeName, "not scheduled yet"))
	if request := s.requestOfPod(pod); request != nil {
		facts.add("request", request.Namespace+"/"+request.Name+", "+string(request.Status.Phase))
	} else if name := pod.Spec.NodeSelector[agentv1alpha1.RequestLabel]; name != "" {
		facts.add("request", name+", which does not exist")
	}
	if reservation := s.reservationOfNode(pod.Spec.NodeName); reservation != "" {
		facts.add("reservation", reservation)
	} else if pod.Spec.NodeName != "" && len(s.gapsOf("nodes")) == 0 {
		facts.add("place", "this cluster: the node is not one of a reservation")
	}
	return string(pod.Status.Phase), facts
}

func describeDemand(r *brokerv1alpha1.Reservation) string {
	var parts []string
	if amounts := corev1.ResourceList(r.Spec.RequestedResources); len(amounts) > 0 {
		parts = append(parts, FormatAmounts(amounts))
	}
	for _, shape := range r.Spec.PodShapes {
		parts = append(parts, fmt.Sprintf("%s of %s", countNoun(int(shape.Count), "pod", "pods"), FormatAmounts(corev1.ResourceList(shape.Resources))))
	}
	if r.Spec.Duration != nil {
		parts = append(parts, "for "+r.Spec.Duration.Duration.String())
	}
	if r.Spec.Priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", r.Spec.Priority))
	}
	return strings.Join(parts, "; ")
}

func (s *Snapshot) describeQueue(q *brokerv1alpha1.QueuePlace) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("position %d", q.Position)
	if q.Since != nil {
		text += ", since " + s.Age(q.Since.Time)
	}
	if q.Until != nil {
		text += ", fails " + s.fromNow(q.Until.Time)
	}
	if q.Reason != "" {
		text += ", " + q.Reason + ": " + PlainText(reasonOf(OfQueue, q.Reason).Means)
	}
	return text
}

// describeAhead names the request right before a place in the queue, if it is in the snapshot.
func (s *Snapshot) describeAhead(place *brokerv1alpha1.QueuePlace) string {
	if place == nil {
		return ""
	}
	isAhead := func(q *brokerv1alpha1.QueuePlace) bool { return q != nil && q.Position == place.Position-1 }
	if s.Broker != nil {
		for _, r := range s.Broker.Reservations {
			if isAhead(r.Status.Queue) {
				return fmt.Sprintf("%s of %s, which asks for %s", r.Status.ReservationName, r.Spec.RequesterID, describeDemand(r))
			}
		}
	}
	if s.Member != nil {
		for _, r := range s.Member.Requests {
			if isAhead(r.Status.Queue) {
				return fmt.Sprintf("%s/%s, which asks for %s", r.Namespace, r.Name, describeDemand(asReservation(r)))
			}
		}
	}
	return ""
}

func (s *Snapshot) describeSince(at *metav1.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339) + " (" + s.Age(at.Time) + " ago)"
}

func (s *Snapshot) describeEnd(at *metav1.Time, granted *brokerv1alpha1.Granted) string {
	if granted != nil && granted.Until != nil {
		at = granted.Until
	}
	switch {
	case at != nil:
		return at.UTC().Format(time.RFC3339) + " (" + s.fromNow(at.Time) + ")"
	case granted != nil:
		return "when it is released: its agent renews it"
	}
	return ""
}

// NotPriced is shown in place of a price that a provider does not name.
const NotPriced = "not priced"

const andBetween = " and "

// WithNotPriced adds to a price the resources that it leaves out, for example "0.84 EUR, nvidia.com/gpu not priced".
func WithNotPriced[T ~string](price string, names []T) string {
	separator := ", "
	for _, name := range names {
		price, separator = price+separator+string(name), andBetween
	}
	if len(names) > 0 {
		price += " " + NotPriced
	}
	return price
}

// describeCost describes what a reservation costs, for example "0.84 EUR per hour, 1.68 EUR so far, 6.72 EUR to the
// end". It returns "" if nothing is granted and nothing was paid.
func (s *Snapshot) describeCost(c *brokerv1alpha1.ReservationCost, granted *brokerv1alpha1.Granted) string {
	switch {
	case c == nil && granted == nil:
		return ""
	case c == nil:
		return NotPriced
	}
	var parts []string
	if c.PerHour != "" {
		parts = append(parts, c.PerHour+" "+c.Currency+" per hour")
	}
	parts = append(parts, s.costSoFar(c)+" "+c.Currency+" so far")
	for _, e := range c.Earlier {
		parts = append(parts, e.Amount+" "+e.Currency+" at earlier providers")
	}
	if c.ToEnd != "" {
		parts = append(parts, c.ToEnd+" "+c.Currency+" to the end")
	}
	return WithNotPriced(strings.Join(parts, ", "), c.NotPriced)
}

// costPlaces is the number of decimal places to which costSoFar rounds.
const costPlaces = 4

// costSoFar returns the cost until the time of the snapshot. If it cannot be computed, it returns the cost in the
// status, which may be older.
func (s *Snapshot) costSoFar(c *brokerv1alpha1.ReservationCost) string {
	_, soFar := decimal.NewFromString(c.SoFar)
	_, perHour := decimal.NewFromString(c.PerHour)
	if soFar != nil || perHour != nil || c.AsOf == nil || s.At.Before(c.AsOf.Time) {
		return c.SoFar
	}
	return s.exactCost(c).Round(costPlaces).String()
}

// exactCost returns the cost until the time of the snapshot, with at most nine decimal places. Texts that are not
// numbers count as zero.
func (s *Snapshot) exactCost(c *brokerv1alpha1.ReservationCost) decimal.Decimal {
	soFar, _ := decimal.NewFromString(c.SoFar)
	perHour, _ := decimal.NewFromString(c.PerHour)
	if c.AsOf == nil || s.At.Before(c.AsOf.Time) {
		return soFar
	}
	seconds := decimal.NewFromInt(int64(s.At.Sub(c.AsOf.Time).Seconds()))
	return soFar.Add(perHour.Mul(seconds).DivRound(decimal.NewFromInt(3600), 30).RoundBank(money.Places))
}
