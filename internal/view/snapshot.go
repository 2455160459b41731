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
	"k8s.io/apimachinery/pkg/runtime"
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
	Pods   []*corev1.Pod
	// Gaps say which objects could not be read.
	Gaps []Gap

	// memo is nil if the views of this snapshot share nothing.
	memo *memo
}

// BrokerObjects are the objects of a broker's cluster. Config is nil if there is no BrokerConfig.
type BrokerObjects struct {
	Clusters     []*brokerv1alpha1.ClusterAdvertisement
	Reservations []*brokerv1alpha1.Reservation
	Config       *brokerv1alpha1.BrokerConfig
	// Ordered is true if Clusters and Reservations are ordered by namespace and name. Views then search them faster.
	Ordered bool
}

// FindCluster returns the ClusterAdvertisement that r names, nil if it is not in the snapshot.
func (b *BrokerObjects) FindCluster(r Ref) *brokerv1alpha1.ClusterAdvertisement {
	return find(b.Clusters, b.Ordered, r)
}

// FindReservation returns the Reservation that r names, nil if it is not in the snapshot.
func (b *BrokerObjects) FindReservation(r Ref) *brokerv1alpha1.Reservation {
	return find(b.Reservations, b.Ordered, r)
}

// MemberObjects are the objects of a member cluster. Nodes contains only virtual nodes.
type MemberObjects struct {
	Requests             []*agentv1alpha1.ResourceRequest
	ConsumerInstructions []*agentv1alpha1.ReservationInstruction
	ProviderInstructions []*agentv1alpha1.ProviderInstruction
	Advertisements       []*agentv1alpha1.Advertisement
	Policies             []*agentv1alpha1.LendingPolicy
	Nodes                []*corev1.Node
}

// FindRequest returns the ResourceRequest that r names, nil if it is not in the snapshot.
func (m *MemberObjects) FindRequest(r Ref) *agentv1alpha1.ResourceRequest {
	return find(m.Requests, false, r)
}

// FindProvided returns the ProviderInstruction that r names, nil if it is not in the snapshot.
func (m *MemberObjects) FindProvided(r Ref) *agentv1alpha1.ProviderInstruction {
	return find(m.ProviderInstructions, false, r)
}

// Add adds the objects in a list to the snapshot. It leaves out nodes that are no virtual nodes.
func (s *Snapshot) Add(list runtime.Object) {
	switch l := list.(type) {
	case *brokerv1alpha1.ClusterAdvertisementList:
		s.Broker.Clusters = appendPointers(s.Broker.Clusters, l.Items)
	case *brokerv1alpha1.ReservationList:
		s.Broker.Reservations = appendPointers(s.Broker.Reservations, l.Items)
	case *brokerv1alpha1.BrokerConfigList:
		if len(l.Items) > 0 {
			s.Broker.Config = &l.Items[0]
		}
	case *agentv1alpha1.ResourceRequestList:
		s.Member.Requests = appendPointers(s.Member.Requests, l.Items)
	case *agentv1alpha1.ReservationInstructionList:
		s.Member.ConsumerInstructions = appendPointers(s.Member.ConsumerInstructions, l.Items)
	case *agentv1alpha1.ProviderInstructionList:
		s.Member.ProviderInstructions = appendPointers(s.Member.ProviderInstructions, l.Items)
	case *agentv1alpha1.AdvertisementList:
		s.Member.Advertisements = appendPointers(s.Member.Advertisements, l.Items)
	case *agentv1alpha1.LendingPolicyList:
		s.Member.Policies = appendPointers(s.Member.Policies, l.Items)
	case *corev1.NodeList:
		isReal := func(n corev1.Node) bool { return n.Labels[agentv1alpha1.ReservationLabel] == "" }
		s.Member.Nodes = appendPointers(s.Member.Nodes, slices.DeleteFunc(l.Items, isReal))
	}
}

func appendPointers[T any](to []*T, items []T) []*T {
	for i := range items {
		to = append(to, &items[i])
	}
	return to
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

// Kind is a kind of objects with the names that users may type, and its subject in the table of terms.
type Kind struct {
	Kind, Group, short, Plural string
	subject                    Subject
	// Object and List are empty objects, nil for kinds of which no list is read.
	Object interface {
		metav1.Object
		runtime.Object
	}
	List interface {
		metav1.ListInterface
		runtime.Object
	}
}

// IsNamespaced reports whether objects of the kind are in namespaces.
func (k *Kind) IsNamespaced() bool {
	return !slices.Contains([]string{"BrokerConfig", "LendingPolicy", "Node"}, k.Kind)
}

var ofBroker, ofAgent = brokerv1alpha1.GroupVersion.Group, agentv1alpha1.GroupVersion.Group

var kinds = []Kind{
	{"ClusterAdvertisement", ofBroker, "cadv", "clusteradvertisements", OfCluster, &brokerv1alpha1.ClusterAdvertisement{}, &brokerv1alpha1.ClusterAdvertisementList{}},
	{"Reservation", ofBroker, "rsv", "reservations", OfReservation, &brokerv1alpha1.Reservation{}, &brokerv1alpha1.ReservationList{}},
	{"BrokerConfig", ofBroker, "bcfg", "brokerconfigs", OfConfig, &brokerv1alpha1.BrokerConfig{}, &brokerv1alpha1.BrokerConfigList{}},
	{"ResourceRequest", ofAgent, "rreq", "resourcerequests", OfRequest, &agentv1alpha1.ResourceRequest{}, &agentv1alpha1.ResourceRequestList{}},
	{"ReservationInstruction", ofAgent, "rinst", "reservationinstructions", OfInstruction, &agentv1alpha1.ReservationInstruction{}, &agentv1alpha1.ReservationInstructionList{}},
	{"ProviderInstruction", ofAgent, "pinst", "providerinstructions", OfInstruction, &agentv1alpha1.ProviderInstruction{}, &agentv1alpha1.ProviderInstructionList{}},
	{"Advertisement", ofAgent, "adv", "advertisements", OfAdvertisement, &agentv1alpha1.Advertisement{}, &agentv1alpha1.AdvertisementList{}},
	{"LendingPolicy", ofAgent, "lendingpolicy", "lendingpolicies", OfLendingPolicy, &agentv1alpha1.LendingPolicy{}, &agentv1alpha1.LendingPolicyList{}},
	{"Node", "", "node", "nodes", "", &corev1.Node{}, &corev1.NodeList{}},
	{"Quote", ofAgent, "quo", "quotes", OfQuote, nil, nil},
	{"Pod", "", "pod", "pods", "", nil, nil},
}

// KindsOf returns the kinds of which Snapshot.Add takes lists, in a broker's cluster, a member, or both.
func KindsOf(broker, member bool) (out []Kind) {
	for _, k := range kinds {
		if isBroker := k.Group == ofBroker; k.List != nil && (isBroker && broker || !isBroker && member) {
			out = append(out, k)
		}
	}
	return out
}

// kindOf returns the entry of a kind. For other kinds it has no names.
func kindOf(kind string) *Kind {
	for i := range kinds {
		if kinds[i].Kind == kind {
			return &kinds[i]
		}
	}
	return &Kind{short: kind}
}

// Group returns the API group of the object's kind. It is "" for the core group.
func (r Ref) Group() string { return kindOf(r.Kind).Group }

// Short returns the object in the form that commands accept, for example "rreq/my-request". A kind without a short name
// is written in full.
func (r Ref) Short() string { return kindOf(r.Kind).short + "/" + r.Name }

// subject returns the Subject of the object's conditions in the table of terms; "" if its kind has none.
func (r Ref) subject() Subject { return kindOf(r.Kind).subject }

// KindNamed returns the kind with the given name, plural or short name, ignoring case; "" if there is none.
func KindNamed(name string) string {
	for _, k := range kinds {
		if strings.EqualFold(name, k.Kind) || strings.EqualFold(name, k.short) || strings.EqualFold(name, k.Plural) {
			return k.Kind
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

// objectOf returns the fields that objects of all kinds have in common. The result has no kind if the object is not part
// of this product.
func objectOf(value any) (o object) {
	switch v := value.(type) {
	case *agentv1alpha1.ResourceRequest:
		o = newObject("ResourceRequest", v, string(v.Status.Phase), v.Status.Message, v.Status.Conditions)
		o.Reservation, o.Queue = v.Status.ReservationName, v.Status.Queue
		if o.Queue != nil {
			o.detail = func() string { return queueDetail(v.Status.Queue, countRejections(v.Status.Candidates)) }
		}
	case *agentv1alpha1.ReservationInstruction:
		o = newObject("ReservationInstruction", v, string(v.Status.Phase), v.Status.Message, v.Status.Conditions)
		o.Reservation = v.Spec.ReservationName
	case *agentv1alpha1.ProviderInstruction:
		o = newObject("ProviderInstruction", v, string(v.Status.Phase), v.Status.Message, v.Status.Conditions)
		o.Reservation = v.Spec.ReservationName
	case *agentv1alpha1.Advertisement:
		o = newObject("Advertisement", v, "", v.Status.Message, v.Status.Conditions)
		o.ClusterID = v.Spec.ClusterID
	case *agentv1alpha1.LendingPolicy:
		o = newObject("LendingPolicy", v, "", "", v.Status.Conditions)
	case *brokerv1alpha1.Reservation:
		o = newObject("Reservation", v, string(v.Status.Phase), v.Status.Message, v.Status.Conditions)
		o.Reservation, o.Queue = v.Status.ReservationName, v.Status.Queue
		if o.Queue != nil {
			o.detail = func() string { return queueDetail(v.Status.Queue, v.Status.Rejected) }
		}
	case *brokerv1alpha1.ClusterAdvertisement:
		o = newObject("ClusterAdvertisement", v, v.Status.Phase, "", v.Status.Conditions)
		o.ClusterID = v.Spec.ClusterID
		if n := v.Status.Reservations; n > 0 {
			o.detail = func() string { return "holds " + countNoun(int(n), "reservation", "reservations") }
		}
	case *brokerv1alpha1.BrokerConfig:
		o = newObject("BrokerConfig", v, "", "", v.Status.Conditions)
	}
	return o
}

func newObject(kind string, of metav1.Object, phase, message string, conditions []metav1.Condition) object {
	return object{
		Ref:     Ref{Kind: kind, Namespace: of.GetNamespace(), Name: of.GetName()},
		Created: of.GetCreationTimestamp().Time, Deleting: of.GetDeletionTimestamp() != nil,
		Phase: phase, Message: message, Conditions: conditions,
	}
}

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
		visitPointers(b.Clusters, visit) && visitPointers(b.Reservations, visit) && b.visitConfig(visit)
}

// visitEach calls visit for each object until visit returns false. It reports whether visit always returned true.
func (m *MemberObjects) visitEach(visit func(*object) bool) bool {
	return m == nil ||
		visitPointers(m.Requests, visit) && visitPointers(m.ConsumerInstructions, visit) && visitPointers(m.ProviderInstructions, visit) &&
			visitPointers(m.Advertisements, visit) && visitPointers(m.Policies, visit)
}

func (b *BrokerObjects) visitConfig(visit func(*object) bool) bool {
	return b.Config == nil || visit(new(objectOf(b.Config)))
}

func visitPointers[T any](items []*T, visit func(*object) bool) bool {
	var o object
	for _, item := range items {
		o = objectOf(item)
		if !visit(&o) {
			return false
		}
	}
	return true
}

func (s *Snapshot) commandLine(verb string, arguments ...string) string {
	words := append([]string{"kubectl broker", s.Flags, verb}, arguments...)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

func (s *Snapshot) whyCommand(r Ref) string {
	namespace := ""
	if r.Namespace != "" {
		namespace = "-n " + r.Namespace
	}
	return s.commandLine("why", r.Short(), namespace)
}

// Age returns how long ago a time was, for example "48m", or "-" if the time is not known.
func (s *Snapshot) Age(since time.Time) string {
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
	return s.Age(at) + " ago"
}
