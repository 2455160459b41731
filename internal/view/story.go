package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Story is the output of the command why: everything that is known about one object, the subject, and about its
// reservation.
type Story struct {
	metav1.TypeMeta `json:",inline"`
	Subject         Ref         `json:"subject"`
	Context         string      `json:"context"`
	At              metav1.Time `json:"at"`
	// Phase and Message are from the status of the subject.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	// Facts are lines about the subject, for example what was asked for and what was granted.
	Facts []Fact `json:"facts,omitempty"`
	// Conditions are the conditions of all related objects, from all clusters that were read.
	Conditions []ConditionRow `json:"conditions,omitempty"`
	// Candidates explain the last decision. Rejected counts the rejected candidates by reason, including those that
	// Candidates does not list.
	Candidates []CandidateRow   `json:"candidates,omitempty"`
	Rejected   map[string]int32 `json:"rejected,omitempty"`
	// Placements are the placements of the reservation, oldest first.
	Placements []PlacementRow `json:"placements,omitempty"`
	Events     []EventRow     `json:"events,omitempty"`
	// Next lists the next steps, the most urgent first.
	Next []Step `json:"next,omitempty"`
	Gaps []Gap  `json:"gaps,omitempty"`

	causes causes
}

// Fact is one line about a subject: a name, such as "node", and a text.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// ConditionRow is a condition of an object, for output.
type ConditionRow struct {
	Context string      `json:"context"`
	Object  Ref         `json:"object"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Reason  string      `json:"reason"`
	Level   Level       `json:"level,omitempty"`
	Since   metav1.Time `json:"since,omitzero"`
	Message string      `json:"message,omitempty"`
}

// CandidateRow is a candidate, for output. Remedy says what would help if the candidate was rejected.
type CandidateRow struct {
	ClusterID string `json:"clusterID,omitempty"`
	Score     string `json:"score,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// Price contains its unit, for example "0.84 EUR/h".
	Price   string `json:"price,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// PlacementRow is a placement of a reservation, for output. Means explains the field Reason.
type PlacementRow struct {
	Number    int32  `json:"number"`
	ClusterID string `json:"clusterID"`
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Means     string `json:"means,omitempty"`
}

// EventRow is an event about a related object, for output.
type EventRow struct {
	Context string      `json:"context"`
	At      metav1.Time `json:"at"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Object  Ref         `json:"object"`
	Message string      `json:"message"`
}

// Step is what is wrong, with the remedy in Do and the command line for it if there are any.
type Step struct {
	Level   Level  `json:"level,omitempty"`
	Text    string `json:"text"`
	Do      string `json:"do,omitempty"`
	Command string `json:"command,omitempty"`
	// ofCandidate is true for the remedy of a rejected candidate, whose row in a table has it as well.
	ofCandidate bool
}

// Related returns, for each snapshot, the objects that belong to the story of a subject: all objects and nodes of its
// reservation and, for the first snapshot, the subject itself.
func Related(snapshots []*Snapshot, subject Ref) [][]Ref {
	out := make([][]Ref, len(snapshots))
	reservation := snapshots[0].reservationOfRef(subject)
	for i, s := range snapshots {
		if i == 0 {
			out[i] = append(out[i], subject)
		}
		if pod := s.findPod(subject); i == 0 && pod != nil && reservation == "" {
			if q := s.requestOfPod(pod); q != nil {
				out[i] = append(out[i], Ref{Kind: "ResourceRequest", Namespace: q.Namespace, Name: q.Name})
			}
		}
		if reservation == "" {
			continue
		}
		begin := len(out[i])
		add := func(r Ref, of string) {
			if of == reservation && r != subject {
				out[i] = append(out[i], r)
			}
		}
		if s.Broker != nil {
			for _, r := range s.Broker.Reservations {
				add(Ref{Kind: "Reservation", Namespace: r.Namespace, Name: r.Name}, r.Status.ReservationName)
			}
		}
		s.Member.visitEach(func(o *object) bool {
			add(o.Ref, o.Reservation)
			return true
		})
		slices.SortFunc(out[i][begin:], compareRefs)
		if s.Member == nil {
			continue
		}
		for _, node := range s.Member.Nodes {
			add(Ref{Kind: "Node", Name: node.Name}, node.Labels[agentv1alpha1.ReservationLabel])
		}
	}
	return out
}

// reservationOfRef returns the name of the reservation that an object belongs to, or "" if it belongs to none.
func (s *Snapshot) reservationOfRef(r Ref) string {
	switch r.Kind {
	case "Node":
		return s.reservationOfNode(r.Name)
	case "Pod":
		if pod := s.findPod(r); pod != nil {
			if reservation := s.reservationOfNode(pod.Spec.NodeName); reservation != "" {
				return reservation
			}
			if request := s.requestOfPod(pod); request != nil {
				return request.Status.ReservationName
			}
			return reservationOf(pod.Labels[copyLabel])
		}
	default:
		if o := s.findObject(r); o != nil {
			return o.Reservation
		}
	}
	return ""
}

func (s *Snapshot) findPod(r Ref) *corev1.Pod { return find(s.Pods, false, r) }

// findObject returns an object of this product, or nil if it is not in the snapshot. In a broker's cluster, it looks
// only at objects of the same kind, because there can be many of the others.
func (s *Snapshot) findObject(r Ref) (found *object) {
	visit := func(o *object) bool {
		if o.Ref == r {
			found = o
		}
		return found == nil
	}
	switch b := s.Broker; {
	case b != nil && r.Kind == "ClusterAdvertisement":
		if c := b.FindCluster(r); c != nil {
			found = new(objectOf(c))
		}
	case b != nil && r.Kind == "Reservation":
		if q := b.FindReservation(r); q != nil {
			found = new(objectOf(q))
		}
	case b != nil && r.Kind == "BrokerConfig":
		b.visitConfig(visit)
	default:
		s.Member.visitEach(visit)
	}
	return found
}

// NewStory returns the story of a subject, which is an object in the first snapshot. The other snapshots are of other
// clusters that are involved. related is the result of Related for the same snapshots and subject.
func NewStory(snapshots []*Snapshot, subject Ref, related [][]Ref) *Story {
	first := snapshots[0]
	story := &Story{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Story"},
		Subject:  subject, Context: first.Context, At: metav1.NewTime(first.At),
	}
	story.introduceSubject(first, subject)
	for i, s := range snapshots {
		story.Gaps = append(story.Gaps, s.Gaps...)
		for j := range s.Events {
			row := newEventRow(s, &s.Events[j])
			if slices.ContainsFunc(related[i], func(r Ref) bool { return r.Kind == row.Object.Kind && r.Name == row.Object.Name }) {
				story.Events = append(story.Events, row)
			}
		}
	}
	slices.SortStableFunc(story.Events, func(a, b EventRow) int { return a.At.Compare(b.At.Time) })
	if subject.Kind == "Pod" {
		story.explainPod(first)
	}
	for i, s := range snapshots {
		for _, r := range related[i] {
			story.tellConditions(s, r)
			story.tellDecision(s, r)
		}
	}
	story.adviseSteps(snapshots, related)
	return story
}

func (st *Story) introduceSubject(s *Snapshot, r Ref) {
	if o := s.findObject(r); o != nil {
		st.Phase, st.Message = o.Phase, o.Message
	}
	switch r.Kind {
	case "ResourceRequest":
		if q := s.Member.FindRequest(r); q != nil {
			st.Facts = s.demandFacts(asReservation(q), q.Status.NodeName, "agent")
		}
	case "Reservation":
		if q := s.Broker.FindReservation(r); q != nil {
			st.Facts = s.demandFacts(q, "", "broker")
		}
	case "ReservationInstruction":
		if q := find(s.Member.ConsumerInstructions, false, r); q != nil {
			facts := placementFacts(q.Spec.ReservationName, q.Spec.Placement, "provider", q.Spec.TargetClusterID, q.Spec.Resources)
			facts.add("node", q.Status.NodeName)
			st.Facts = facts
		}
	case "ProviderInstruction":
		if q := s.Member.FindProvided(r); q != nil {
			facts := placementFacts(q.Spec.ReservationName, q.Spec.Placement, "consumer", q.Spec.RequesterClusterID, q.Kept())
			facts.add("ends", s.describeEnd(q.Spec.ExpiresAt, nil))
			st.Facts = facts
		}
	case "ClusterAdvertisement":
		if c := s.Broker.FindCluster(r); c != nil {
			st.Facts = s.clusterFacts(c)
		}
	case "Pod":
		st.Phase, st.Facts = s.podFacts(s.findPod(r))
	case "Node":
		st.Facts = []Fact{{"reservation", cmp.Or(s.reservationOfRef(r), "none")}}
	}
}

func (st *Story) tellConditions(s *Snapshot, r Ref) {
	add := func(level Level, of, status, reason string, since metav1.Time, message string) {
		st.Conditions = append(st.Conditions, ConditionRow{
			Context: s.Context, Object: r, Type: of, Status: status, Reason: reason, Level: level, Since: since, Message: message,
		})
	}
	switch r.Kind {
	case "Node":
		for _, c := range s.findNode(r.Name).Status.Conditions {
			if c.Type == corev1.NodeReady {
				add(levelUnless(c.Status == corev1.ConditionTrue, Failure), string(c.Type), string(c.Status), c.Reason, c.LastTransitionTime, c.Message)
			}
		}
		return
	case "Pod":
		pod := s.findPod(r)
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled || c.Type == corev1.PodReady {
				level := levelUnless(c.Status != corev1.ConditionFalse || pod.Status.Phase == corev1.PodSucceeded, Warning)
				add(level, string(c.Type), string(c.Status), c.Reason, c.LastTransitionTime, c.Message)
			}
		}
		return
	}
	o := s.findObject(r)
	if o == nil {
		return
	}
	levels := map[string]Level{}
	findObjectProblems(o, func(f finding) {
		if s.At.Sub(f.since) >= f.term.After {
			levels[f.term.Word] = f.level
		}
	})
	for i := range o.Conditions {
		c := &o.Conditions[i]
		add(levels[c.Reason], c.Type, string(c.Status), c.Reason, metav1.NewTime(conditionSince(o, c)), c.Message)
		st.explainCondition(s, o, c, levels[c.Reason])
	}
}

func levelUnless(good bool, level Level) Level {
	if good {
		return Normal
	}
	return level
}

// tellDecision adds candidates and placements to the story. Those of a Reservation replace those of a
// ResourceRequest, because the broker's object shows more.
func (st *Story) tellDecision(s *Snapshot, r Ref) {
	switch r.Kind {
	case "ResourceRequest":
		if q := s.Member.FindRequest(r); q != nil && len(st.Candidates) == 0 {
			st.Candidates = candidateRows(q.Status.Candidates)
		}
	case "Reservation":
		q := s.Broker.FindReservation(r)
		if q == nil {
			return
		}
		if len(q.Status.Candidates) > 0 {
			st.Candidates = candidateRows(q.Status.Candidates)
		}
		st.Rejected = q.Status.Rejected
		st.Placements = placementRows(q.Status.Placements)
	}
}

func candidateRows(candidates []brokerv1alpha1.Candidate) []CandidateRow {
	rows := make([]CandidateRow, 0, len(candidates))
	for i, c := range candidates {
		row := CandidateRow{ClusterID: cmp.Or(c.ClusterID, fmt.Sprintf("candidate-%d", i+1)), Score: c.Score, Reason: c.Reason, Message: c.Message}
		if c.PricePerHour != "" {
			row.Price = WithNotPriced(c.PricePerHour+" "+c.Currency+"/h", c.NotPriced)
		}
		if c.Reason != "" {
			row.Remedy = PlainText(reasonOf(OfCandidate, c.Reason).Do)
		}
		rows = append(rows, row)
	}
	return rows
}

func placementRows(placements []brokerv1alpha1.Placement) []PlacementRow {
	rows := make([]PlacementRow, 0, len(placements))
	for _, p := range placements {
		row := PlacementRow{Number: p.Number, ClusterID: p.ClusterID, State: string(p.State), Reason: p.Reason}
		if p.Reason != "" { // it comes from the broker, or from a provider that refused the placement
			row.Means = PlainText(cmp.Or(reasonOf(OfPlacement, p.Reason).Means, reasonOf(OfInstruction, p.Reason).Means))
		}
		rows = append(rows, row)
	}
	return rows
}

func newEventRow(s *Snapshot, e *corev1.Event) EventRow {
	return EventRow{
		Context: s.Context, At: metav1.NewTime(eventTime(e)), Type: e.Type, Reason: e.Reason, Message: e.Message,
		Object: AboutOf(e),
	}
}

// AboutOf returns the object that an event is about. For a ShadowPod that is the pod of the same name: Liqo copies the
// provider's events about it with the UID of the pod, such as the refusal of the pod by the API server there.
func AboutOf(e *corev1.Event) Ref {
	r := Ref{Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}
	if r.Kind == "ShadowPod" {
		r.Kind = "Pod"
	}
	return r
}

// eventTime returns when an event last occurred. If the event does not say, it returns when the event was created.
func eventTime(e *corev1.Event) time.Time {
	series := time.Time{}
	if e.Series != nil {
		series = e.Series.LastObservedTime.Time
	}
	return cmp.Or(series, e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}
