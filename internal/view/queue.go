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

// place is the place of a request in the queue. since is in nanoseconds of Unix time, 0 if unknown. The request is a
// Reservation, or a ResourceRequest of a member.
type place struct {
	position int32
	since    int64
	request  metav1.Object
}

func newPlace(request metav1.Object, queue *brokerv1alpha1.QueuePlace) place {
	p := place{request: request}
	if queue != nil {
		p.position = queue.Position
		if queue.Since != nil {
			p.since = queue.Since.UnixNano()
		}
	}
	return p
}

// comparePlaces compares two places by position, by time, and then by namespace and name.
func comparePlaces(a, b place) int {
	if c := cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.since, b.since)); c != 0 {
		return c
	}
	return compareRefs(refOf(a.request), refOf(b.request))
}

// QueuePart returns a part of the queue. It leaves out requests before the index from, and returns no more than the
// number most; 0 means no limit. total is how many requests wait.
func QueuePart(s *Snapshot, from, most int) (q *Queue, total int) {
	q = &Queue{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Queue"}, Items: []Waiting{}, Paused: s.isQueuePaused(), Gaps: s.gapsOf("reservations", "resourcerequests")}
	places := first[place]{compare: comparePlaces}
	if most > 0 {
		places.most = from + most
	}
	waiting := remembered(s, func(m *memo) *once[[]place] { return &m.queue }, s.findWaiting)
	for _, p := range waiting {
		places.add(p)
	}
	for k, p := range places.sorted() {
		if k >= from {
			q.Items = append(q.Items, describeWaiting(p.request))
		}
	}
	return q, len(waiting)
}

// findWaiting returns the places of the waiting requests, in no particular order.
func (s *Snapshot) findWaiting() (places []place) {
	switch {
	case s.Broker != nil:
		for _, r := range s.Broker.Reservations {
			if r.Status.Phase == brokerv1alpha1.ReservationQueued {
				places = append(places, newPlace(r, r.Status.Queue))
			}
		}
	case s.Member != nil:
		for _, r := range s.Member.Requests {
			if r.Status.Phase == agentv1alpha1.RequestQueued {
				places = append(places, newPlace(r, r.Status.Queue))
			}
		}
	}
	return places
}

// asReservation returns a Reservation that asks for and has what a ResourceRequest does, so that views describe both in
// the same way.
func asReservation(r *agentv1alpha1.ResourceRequest) *brokerv1alpha1.Reservation {
	out := &brokerv1alpha1.Reservation{ObjectMeta: r.ObjectMeta}
	out.Spec.RequestedResources, out.Spec.Requirements = brokerv1alpha1.RequestedResources(DemandOf(r)), r.Spec.Requirements
	out.Spec.Priority, out.Spec.Duration = r.Spec.Priority, r.Spec.Duration
	out.Status = brokerv1alpha1.ReservationStatus{
		ReservationName: r.Status.ReservationName, TargetClusterID: r.Status.TargetClusterID, RequestedBy: r.Status.RequestedBy,
		Granted: r.Status.Granted, Cost: r.Status.Cost, Queue: r.Status.Queue, Candidates: r.Status.Candidates, Rejected: countRejections(r.Status.Candidates),
		ReservedAt: r.Status.ReservedAt, ExpiresAt: r.Status.ExpiresAt, IdleSince: r.Status.IdleSince, ObservedGeneration: r.Status.ObservedGeneration,
	}
	return out
}

func describeWaiting(request metav1.Object) Waiting {
	w := Waiting{Ref: refOf(request)}
	r, isReservation := request.(*brokerv1alpha1.Reservation)
	w.Kind = "Reservation"
	if !isReservation {
		r, w.Kind = asReservation(request.(*agentv1alpha1.ResourceRequest)), "ResourceRequest"
	}
	w.Requester, w.Priority, w.Resources = r.Spec.RequesterID, r.Spec.Priority, corev1.ResourceList(r.Spec.RequestedResources)
	w.Blocker = mainBlocker(r.Status.Rejected)
	if place := r.Status.Queue; place != nil {
		w.Position, w.Reason = place.Position, place.Reason
		if place.Since != nil {
			w.Since = *place.Since
		}
		if place.Until != nil {
			w.Until = *place.Until
		}
	}
	for _, c := range r.Status.Candidates {
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
			s.Age(w.Since.Time), fails, cmp.Or(w.Blocker, w.Reason, "-"), cmp.Or(w.BlockerDetail, "-"),
		}})
	}
	return t
}
