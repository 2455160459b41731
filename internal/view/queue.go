package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Queue is the output of the command queue: the requests that wait for capacity.
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Waiting `json:"items"`
	// Paused is true while the administrator has paused the queue. It is always false in a member, which cannot know
	// it.
	Paused bool  `json:"paused,omitempty"`
	Gaps   []Gap `json:"gaps,omitempty"`
}

// Waiting is a request that waits in the queue.
type Waiting struct {
	Ref       `json:",inline"`
	Requester string              `json:"requester,omitempty"`
	Resources corev1.ResourceList `json:"resources,omitempty"`
	Priority  int32               `json:"priority"`
	Position  int32               `json:"position"`
	Since     metav1.Time         `json:"since,omitzero"`
	// Until is when the request fails if it still waits.
	Until metav1.Time `json:"until,omitzero"`
	// Reason is why the request is in the queue. Blocker is the reason with which most clusters were rejected in its
	// last decision. BlockerDetail is the ID of one of these clusters, the best candidate among them, and the message
	// about its rejection.
	Reason        string `json:"reason,omitempty"`
	Blocker       string `json:"blocker,omitempty"`
	BlockerDetail string `json:"blockerDetail,omitempty"`
}

// NewQueue returns the waiting requests in a snapshot, in the order in which they will be served. In a broker's
// cluster these are Reservations, in a member cluster ResourceRequests.
func NewQueue(s *Snapshot) *Queue {
	q, _ := QueuePart(s, 0, 0)
	return q
}

// place is the place of a request in the queue. i is its index among the objects of its kind. since is in nanoseconds of
// Unix time, 0 if unknown.
type place struct {
	position int32
	since    int64
	i        int
}

func newPlace(queue *brokerv1alpha1.QueuePlace, i int) place {
	p := place{i: i}
	if queue != nil {
		p.position = queue.Position
		if queue.Since != nil {
			p.since = queue.Since.UnixNano()
		}
	}
	return p
}

// comparePlaces compares two places by position, by time, and then by namespace and name.
func (s *Snapshot) comparePlaces(a, b place) int {
	if c := cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.since, b.since)); c != 0 {
		return c
	}
	return compareRefs(s.refOfWaiting(a.i), s.refOfWaiting(b.i))
}

// QueuePart returns a part of the queue. It leaves out requests before the index from, and returns no more than the
// number most; 0 means no limit. total is how many requests wait.
func QueuePart(s *Snapshot, from, most int) (q *Queue, total int) {
	q = &Queue{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Queue"}, Items: []Waiting{}, Paused: s.isQueuePaused(), Gaps: s.gapsOf("reservations", "resourcerequests")}
	places := first[place]{compare: s.comparePlaces}
	if most > 0 {
		places.most = from + most
	}
	waiting := remembered(s, func(m *memo) *once[[]place] { return &m.queue }, s.findWaiting)
	for _, p := range waiting {
		places.add(p)
	}
	for k, p := range places.sorted() {
		if k >= from {
			q.Items = append(q.Items, s.describeWaiting(p.i))
		}
	}
	return q, len(waiting)
}

// findWaiting returns the places of the waiting requests, in no particular order.
func (s *Snapshot) findWaiting() (places []place) {
	switch {
	case s.Broker != nil:
		for i, r := range s.Broker.Reservations {
			if r.Status.Phase == brokerv1alpha1.ReservationQueued {
				places = append(places, newPlace(r.Status.Queue, i))
			}
		}
	case s.Member != nil:
		for i := range s.Member.Requests {
			if r := &s.Member.Requests[i]; r.Status.Phase == agentv1alpha1.RequestQueued {
				places = append(places, newPlace(r.Status.Queue, i))
			}
		}
	}
	return places
}

// refOfWaiting returns the object that describeWaiting describes.
func (s *Snapshot) refOfWaiting(i int) Ref {
	if s.Broker != nil {
		r := s.Broker.Reservations[i]
		return Ref{Kind: "Reservation", Namespace: r.Namespace, Name: r.Name}
	}
	r := &s.Member.Requests[i]
	return Ref{Kind: "ResourceRequest", Namespace: r.Namespace, Name: r.Name}
}

// describeWaiting describes the waiting request with an index among the Reservations, or among the ResourceRequests of
// a member.
func (s *Snapshot) describeWaiting(i int) Waiting {
	if s.Broker != nil {
		return waitingReservation(s.Broker.Reservations[i])
	}
	return waitingRequest(&s.Member.Requests[i])
}

func waitingReservation(r *brokerv1alpha1.Reservation) Waiting {
	w := newWaiting(reservationObject(r).Ref, r.Status.Queue, r.Status.Candidates, r.Status.Rejected)
	w.Requester, w.Priority, w.Resources = r.Spec.RequesterID, r.Spec.Priority, corev1.ResourceList(r.Spec.RequestedResources)
	return w
}

func waitingRequest(r *agentv1alpha1.ResourceRequest) Waiting {
	w := newWaiting(requestObject(r).Ref, r.Status.Queue, r.Status.Candidates, countRejections(r.Status.Candidates))
	w.Priority, w.Resources = r.Spec.Priority, DemandOf(r)
	return w
}

func newWaiting(ref Ref, place *brokerv1alpha1.QueuePlace, candidates []brokerv1alpha1.Candidate, rejected map[string]int32) Waiting {
	w := Waiting{Ref: ref, Blocker: mainBlocker(rejected)}
	if place != nil {
		w.Position, w.Reason = place.Position, place.Reason
		if place.Since != nil {
			w.Since = *place.Since
		}
		if place.Until != nil {
			w.Until = *place.Until
		}
	}
	for _, c := range candidates {
		if c.Reason == w.Blocker && c.Message != "" {
			w.BlockerDetail = c.ClusterID + " " + c.Message
			break
		}
	}
	return w
}

// DemandOf returns all amounts in the spec of a ResourceRequest, including cpu and memory.
func DemandOf(r *agentv1alpha1.ResourceRequest) corev1.ResourceList {
	asked := corev1.ResourceList{}
	maps.Copy(asked, r.Spec.Resources)
	if r.Spec.CPU != nil {
		asked[corev1.ResourceCPU] = *r.Spec.CPU
	}
	if r.Spec.Memory != nil {
		asked[corev1.ResourceMemory] = *r.Spec.Memory
	}
	return asked
}

// SetDemand sets the amounts in the list. Other amounts of the request stay unchanged.
func SetDemand(r *agentv1alpha1.ResourceRequest, amounts corev1.ResourceList) {
	for name, amount := range amounts {
		switch name {
		case corev1.ResourceCPU:
			r.Spec.CPU = &amount
		case corev1.ResourceMemory:
			r.Spec.Memory = &amount
		default:
			if r.Spec.Resources == nil {
				r.Spec.Resources = brokerv1alpha1.RequestedResources{}
			}
			r.Spec.Resources[name] = amount
		}
	}
}

// gapsOf returns the gaps of the snapshot that concern the given resources, and all gaps of kind Unrecorded.
func (s *Snapshot) gapsOf(resources ...string) (gaps []Gap) {
	for _, g := range s.Gaps {
		if g.Kind == Unrecorded || slices.Contains(resources, g.Resource) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}

// Table is a table of text.
type Table struct {
	Columns []Column
	Rows    []Row
}

// Column is a column of a Table. It is shown only with -o wide if Wide is true.
type Column struct {
	Name string
	Wide bool
}

// Row is a row of a Table. Ref is the object that the row is about.
type Row struct {
	Ref   Ref
	Cells []string
}

// Table returns the queue as a table of text.
func (q *Queue) Table(s *Snapshot) Table {
	t := Table{Columns: []Column{{Name: "Position"}, {Name: "Namespace"}, {Name: "Name"}, {Name: "Requester"}, {Name: "Priority"}, {Name: "Asks for"}, {Name: "Waits"}, {Name: "Fails"}, {Name: "Blocked by"}, {Name: "Detail", Wide: true}}}
	for i := range q.Items {
		w := &q.Items[i]
		fails := "-"
		if !w.Until.IsZero() {
			fails = s.fromNow(w.Until.Time)
		}
		t.Rows = append(t.Rows, Row{Ref: w.Ref, Cells: []string{
			strconv.Itoa(int(w.Position)), w.Namespace, w.Name, cmp.Or(w.Requester, "-"), fmt.Sprint(w.Priority), FormatAmounts(w.Resources),
			s.age(w.Since.Time), fails, cmp.Or(w.Blocker, w.Reason, "-"), cmp.Or(w.BlockerDetail, "-"),
		}})
	}
	return t
}
