package view

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Snapshot is what was read from one cluster at one moment.
type Snapshot struct {
	// Context is the name of the cluster for people: its context in the kubeconfig.
	Context string
	// Flags are the command-line flags that select the cluster, for example "--context rome". They are added to
	// every suggested command. Flags is "" for the current context.
	Flags string
	// At is when the objects were read. Ages are computed for this time.
	At time.Time
	// Record is the position of the journal up to which it was replayed. It is 0 if the objects were read from the API
	// server.
	Record uint64
	// Broker is nil if the cluster does not serve the broker's API group. Member is nil if it does not serve the
	// agent's API group.
	Broker *BrokerObjects
	Member *MemberObjects
	// Events and Pods are filled only by commands that need them. The commands why and bundle fill Events, and the
	// command why fills Pods.
	Events []corev1.Event
	Pods   []corev1.Pod
	// Gaps say which objects could not be read.
	Gaps []Gap

	// memo is nil if the views of this snapshot share nothing.
	memo *memo
}

// BrokerObjects are the objects of a broker's cluster. The lists of clusters and reservations can be long, so they contain
// pointers. Config is nil if there is no BrokerConfig.
type BrokerObjects struct {
	Clusters     []*brokerv1alpha1.ClusterAdvertisement
	Reservations []*brokerv1alpha1.Reservation
	Config       *brokerv1alpha1.BrokerConfig
	// Ordered is true if Clusters and Reservations are ordered by namespace and name. Views then search them faster.
	Ordered bool
}

// FindCluster returns the ClusterAdvertisement that r names, nil if it is not in the snapshot.
func (b *BrokerObjects) FindCluster(r Ref) *brokerv1alpha1.ClusterAdvertisement {
	i := indexOf(len(b.Clusters), b.Ordered, func(i int) *metav1.ObjectMeta { return &b.Clusters[i].ObjectMeta }, r)
	if i < 0 {
		return nil
	}
	return b.Clusters[i]
}

// FindReservation returns the Reservation that r names, nil if it is not in the snapshot.
func (b *BrokerObjects) FindReservation(r Ref) *brokerv1alpha1.Reservation {
	i := indexOf(len(b.Reservations), b.Ordered, func(i int) *metav1.ObjectMeta { return &b.Reservations[i].ObjectMeta }, r)
	if i < 0 {
		return nil
	}
	return b.Reservations[i]
}

// MemberObjects are the objects of a member cluster. Nodes contains only virtual nodes.
type MemberObjects struct {
	Requests             []agentv1alpha1.ResourceRequest
	ConsumerInstructions []agentv1alpha1.ReservationInstruction
	ProviderInstructions []agentv1alpha1.ProviderInstruction
	Advertisements       []agentv1alpha1.Advertisement
	Policies             []agentv1alpha1.LendingPolicy
	Nodes                []corev1.Node
}

// GapKind says why objects are missing from a snapshot.
type GapKind string

// Values of GapKind.
const (
	// Hidden means that the user lacks the right to read the objects.
	Hidden GapKind = "Hidden"
	// Unread means that reading the objects failed for another reason.
	Unread GapKind = "Unread"
	// Unrecorded means that the snapshot was replayed from the journal, and that the journal does not record the missing
	// information.
	Unrecorded GapKind = "Unrecorded"
)

// Gap says that objects of one kind were not read, or were read in one namespace only.
type Gap struct {
	Kind GapKind `json:"kind"`
	// Resource is the plural name of the kind, for example "reservations".
	Resource string `json:"resource"`
	// Namespace is the only namespace in which the objects were read; "" if they were not read at all.
	Namespace string `json:"namespace,omitempty"`
	// Message is the error from the API server. For the kind Unrecorded, it is what is shown instead.
	Message string `json:"message,omitempty"`
}

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// kinds lists the kinds of objects with their API groups, the names that users may type, and their subjects in
// the table of terms.
var kinds = []struct {
	kind, group, short, plural string
	subject                    Subject
}{
	{"ResourceRequest", agentv1alpha1.GroupVersion.Group, "rreq", "resourcerequests", OfRequest},
	{"Quote", agentv1alpha1.GroupVersion.Group, "quo", "quotes", OfQuote},
	{"ReservationInstruction", agentv1alpha1.GroupVersion.Group, "rinst", "reservationinstructions", OfInstruction},
	{"ProviderInstruction", agentv1alpha1.GroupVersion.Group, "pinst", "providerinstructions", OfInstruction},
	{"Advertisement", agentv1alpha1.GroupVersion.Group, "adv", "advertisements", OfAdvertisement},
	{"LendingPolicy", agentv1alpha1.GroupVersion.Group, "lendingpolicy", "lendingpolicies", OfLendingPolicy},
	{"Reservation", brokerv1alpha1.GroupVersion.Group, "rsv", "reservations", OfReservation},
	{"ClusterAdvertisement", brokerv1alpha1.GroupVersion.Group, "cadv", "clusteradvertisements", OfCluster},
	{"BrokerConfig", brokerv1alpha1.GroupVersion.Group, "bcfg", "brokerconfigs", OfConfig},
	{"Node", "", "node", "nodes", ""},
	{"Pod", "", "pod", "pods", ""},
}

// Group returns the API group of the object's kind. It is "" for the core group.
func (r Ref) Group() string {
	for _, k := range kinds {
		if k.kind == r.Kind {
			return k.group
		}
	}
	return ""
}

// Short returns the object in the form that commands accept, for example "rreq/my-request". A kind without a short name
// is written in full.
func (r Ref) Short() string {
	for _, k := range kinds {
		if k.kind == r.Kind {
			return k.short + "/" + r.Name
		}
	}
	return r.Kind + "/" + r.Name
}

// subject returns the Subject of the object's conditions in the table of terms; "" if its kind has none.
func (r Ref) subject() Subject {
	for _, k := range kinds {
		if k.kind == r.Kind {
			return k.subject
		}
	}
	return ""
}

// KindNamed returns the kind with the given name, plural or short name, ignoring case; "" if there is none.
func KindNamed(name string) string {
	for _, k := range kinds {
		if strings.EqualFold(name, k.kind) || strings.EqualFold(name, k.short) || strings.EqualFold(name, k.plural) {
			return k.kind
		}
	}
	return ""
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// object holds the fields that the objects of all kinds have in common.
type object struct {
	Ref        Ref
	Created    time.Time
	Generation int64
	Observed   int64
	Phase      string
	Message    string
	Conditions []metav1.Condition
	// Reservation is the name that the broker gave to the object's reservation; "" if it has none.
	Reservation string
	// detail returns what is added when the object is listed as a problem, for example "holds 4 reservations". It is nil
	// if there is nothing to add.
	detail func() string
	// Queue is the place of a waiting request, nil for other objects.
	Queue *brokerv1alpha1.QueuePlace
	// ClusterID is the ID of the cluster that the object describes; "" for kinds that describe no cluster.
	ClusterID string
	// Deleting is true if the object was deleted and waits for its finalizers.
	Deleting bool
}

func newObject(kind string, meta *metav1.ObjectMeta) object {
	return object{
		Ref:     Ref{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		Created: meta.CreationTimestamp.Time, Generation: meta.Generation, Deleting: meta.DeletionTimestamp != nil,
	}
}

func requestObject(r *agentv1alpha1.ResourceRequest) object {
	o := newObject("ResourceRequest", &r.ObjectMeta)
	o.Observed, o.Phase, o.Message, o.Conditions = r.Status.ObservedGeneration, string(r.Status.Phase), r.Status.Message, r.Status.Conditions
	o.Reservation, o.Queue = r.Status.ReservationName, r.Status.Queue
	if r.Status.Queue != nil {
		o.detail = func() string { return queueDetail(r.Status.Queue, countRejections(r.Status.Candidates)) }
	}
	return o
}

func consumerObject(r *agentv1alpha1.ReservationInstruction) object {
	o := newObject("ReservationInstruction", &r.ObjectMeta)
	o.Observed, o.Phase, o.Message, o.Conditions = r.Status.ObservedGeneration, string(r.Status.Phase), r.Status.Message, r.Status.Conditions
	o.Reservation = r.Spec.ReservationName
	return o
}

func providerObject(p *agentv1alpha1.ProviderInstruction) object {
	o := newObject("ProviderInstruction", &p.ObjectMeta)
	o.Observed, o.Phase, o.Message, o.Conditions = p.Status.ObservedGeneration, string(p.Status.Phase), p.Status.Message, p.Status.Conditions
	o.Reservation = p.Spec.ReservationName
	return o
}

func advertisementObject(a *agentv1alpha1.Advertisement) object {
	o := newObject("Advertisement", &a.ObjectMeta)
	o.Observed, o.Message, o.Conditions = a.Status.ObservedGeneration, a.Status.Message, a.Status.Conditions
	o.ClusterID = a.Spec.ClusterID
	return o
}

func policyObject(p *agentv1alpha1.LendingPolicy) object {
	o := newObject("LendingPolicy", &p.ObjectMeta)
	o.Observed, o.Conditions = p.Status.ObservedGeneration, p.Status.Conditions
	return o
}

func reservationObject(r *brokerv1alpha1.Reservation) object {
	o := newObject("Reservation", &r.ObjectMeta)
	o.Observed, o.Phase, o.Message, o.Conditions = r.Status.ObservedGeneration, string(r.Status.Phase), r.Status.Message, r.Status.Conditions
	o.Reservation, o.Queue = r.Status.ReservationName, r.Status.Queue
	if r.Status.Queue != nil {
		o.detail = func() string { return queueDetail(r.Status.Queue, r.Status.Rejected) }
	}
	return o
}

func clusterObject(c *brokerv1alpha1.ClusterAdvertisement) object {
	o := newObject("ClusterAdvertisement", &c.ObjectMeta)
	o.Observed, o.Phase, o.Conditions = c.Status.ObservedGeneration, c.Status.Phase, c.Status.Conditions
	o.ClusterID = c.Spec.ClusterID
	if n := c.Status.Reservations; n > 0 {
		o.detail = func() string { return "holds " + countNoun(int(n), "reservation", "reservations") }
	}
	return o
}

func configObject(c *brokerv1alpha1.BrokerConfig) object {
	o := newObject("BrokerConfig", &c.ObjectMeta)
	o.Observed, o.Conditions = c.Status.ObservedGeneration, c.Status.Conditions
	return o
}

// queueDetail returns the position of a waiting request and what blocks it.
func queueDetail(place *brokerv1alpha1.QueuePlace, rejected map[string]int32) string {
	text := fmt.Sprintf("position %d", place.Position)
	if reason := mainBlocker(rejected); reason != "" {
		text += ", " + reason
	}
	return text
}

// allObjects returns all objects of this product in the snapshot, in no particular order. Because there can be many,
// it makes one at a time and reuses the memory: an object is valid only until the next one is made.
func (s *Snapshot) allObjects() iter.Seq[*object] {
	return func(yield func(*object) bool) {
		_ = s.Broker.visitEach(yield) && s.Member.visitEach(yield)
	}
}

// visitEach calls visit for each object until visit returns false. It reports whether visit always returned true.
func (b *BrokerObjects) visitEach(visit func(*object) bool) bool {
	return b == nil ||
		visitPointers(b.Clusters, clusterObject, visit) && visitPointers(b.Reservations, reservationObject, visit) && b.visitConfig(visit)
}

// visitEach calls visit for each object until visit returns false. It reports whether visit always returned true.
func (m *MemberObjects) visitEach(visit func(*object) bool) bool {
	return m == nil ||
		visitValues(m.Requests, requestObject, visit) && visitValues(m.ConsumerInstructions, consumerObject, visit) &&
			visitValues(m.ProviderInstructions, providerObject, visit) && visitValues(m.Advertisements, advertisementObject, visit) &&
			visitValues(m.Policies, policyObject, visit)
}

func (b *BrokerObjects) visitConfig(visit func(*object) bool) bool {
	if b.Config == nil {
		return true
	}
	o := configObject(b.Config)
	return visit(&o)
}

func visitPointers[T any](items []*T, objectOf func(*T) object, visit func(*object) bool) bool {
	var o object
	for _, item := range items {
		o = objectOf(item)
		if !visit(&o) {
			return false
		}
	}
	return true
}

func visitValues[T any](items []T, objectOf func(*T) object, visit func(*object) bool) bool {
	var o object
	for i := range items {
		o = objectOf(&items[i])
		if !visit(&o) {
			return false
		}
	}
	return true
}

// commandLine returns a command line of kubectl broker for the cluster of the snapshot.
func (s *Snapshot) commandLine(verb string, arguments ...string) string {
	words := append([]string{"kubectl broker", s.Flags, verb}, arguments...)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// whyCommand returns the command line of kubectl broker why for an object.
func (s *Snapshot) whyCommand(r Ref) string {
	namespace := ""
	if r.Namespace != "" {
		namespace = "-n " + r.Namespace
	}
	return s.commandLine("why", r.Short(), namespace)
}

// age returns how long ago a time was, for example "48m", or "-" if the time is not known.
func (s *Snapshot) age(since time.Time) string {
	if since.IsZero() || since.Unix() <= 0 {
		return "-"
	}
	return duration.HumanDuration(max(s.At.Sub(since), 0))
}

// fromNow returns how far away a time is: "in 12m", or "5s ago" if it has passed.
func (s *Snapshot) fromNow(at time.Time) string {
	if left := at.Sub(s.At); left > 0 {
		return "in " + duration.HumanDuration(left)
	}
	return s.age(at) + " ago"
}
