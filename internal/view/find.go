package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Query is what a user typed to name an object.
type Query struct {
	// Kind is the only kind to search. If it is "", all kinds are searched.
	Kind string
	// Name is the name of an object, a reservation, a placement or a cluster.
	Name string
	// Namespace is preferred if several namespaces contain an object with the name.
	Namespace string
}

// ParseQuery parses NAME or TYPE/NAME. known is false if TYPE is not a known type.
func ParseQuery(text, namespace string) (q Query, known bool) {
	kind, name, typed := strings.Cut(text, "/")
	if !typed {
		return Query{Name: text, Namespace: namespace}, true
	}
	q = Query{Kind: KindNamed(kind), Name: name, Namespace: namespace}
	return q, q.Kind != ""
}

// copyLabel is Liqo's label of the copies of pods in a provider's cluster. Its value is the name of the virtual node.
const copyLabel = "offloading.liqo.io/nodename"

// findOrder lists the kinds of objects, the most informative first. Of several objects of one reservation, Find
// returns the one whose kind comes first.
var findOrder = []string{
	"ResourceRequest", "Reservation", "ReservationInstruction", "ProviderInstruction", "Node", "Pod",
	"ClusterAdvertisement", "Advertisement", "LendingPolicy", "BrokerConfig",
}

// Find returns the objects that a query can mean, at most one for each reservation. If some of them are in the query's
// namespace, it leaves out objects in other namespaces.
func (s *Snapshot) Find(q Query) []Ref {
	matches := s.matchesOf(q)
	near := slices.ContainsFunc(matches, func(m object) bool { return m.Ref.Namespace == q.Namespace })
	slices.SortStableFunc(matches, func(a, b object) int {
		return slices.Index(findOrder, a.Ref.Kind) - slices.Index(findOrder, b.Ref.Kind)
	})
	told := map[string]bool{}
	var found []Ref
	for _, m := range matches {
		if near && m.Ref.Namespace != "" && m.Ref.Namespace != q.Namespace || m.Reservation != "" && told[m.Reservation] {
			continue
		}
		told[m.Reservation] = true
		found = append(found, m.Ref)
	}
	return found
}

func (s *Snapshot) matchesOf(q Query) (matches []object) {
	for o := range s.allObjects() {
		if isNamed(o, q) {
			matches = append(matches, *o)
		}
	}
	slices.SortFunc(matches, func(a, b object) int { return compareRefs(a.Ref, b.Ref) })
	if isKind(q, "Node") {
		if node := s.findNode(q.Name); node != nil {
			matches = append(matches, object{Ref: Ref{Kind: "Node", Name: node.Name}, Reservation: node.Labels[agentv1alpha1.ReservationLabel]})
		}
	}
	for _, pod := range s.Pods {
		if isKind(q, "Pod") && pod.Name == q.Name {
			matches = append(matches, object{Ref: Ref{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}})
		}
	}
	return matches
}

func isKind(q Query, kind string) bool { return q.Kind == "" || q.Kind == kind }

// isNamed reports whether a query can mean an object: the query names the object, its reservation, a placement of that
// reservation, or its cluster.
func isNamed(o *object, q Query) bool {
	return isKind(q, o.Ref.Kind) && (o.Ref.Name == q.Name || o.ClusterID != "" && o.ClusterID == q.Name ||
		o.Reservation != "" && (o.Reservation == q.Name || o.Reservation == reservationOf(q.Name)))
}

// reservationOf returns the name of the reservation that is part of a placement's name; "" if the given text is not
// the name of a placement.
func reservationOf(placement string) string {
	i := max(strings.LastIndex(placement, "-"), 0)
	if _, err := strconv.Atoi(strings.TrimPrefix(placement[i:], "-")); err != nil {
		return ""
	}
	return placement[:i]
}

func (s *Snapshot) findNode(name string) *corev1.Node {
	if s.Member == nil {
		return nil
	}
	return find(s.Member.Nodes, false, Ref{Name: name})
}

// reservationOfNode returns the reservation whose virtual node has the given name; "" if none has. A user who may not
// list nodes knows those of the requests that the user may list.
func (s *Snapshot) reservationOfNode(name string) string {
	if s.Member == nil || name == "" {
		return ""
	}
	if node := s.findNode(name); node != nil {
		return node.Labels[agentv1alpha1.ReservationLabel]
	}
	for _, r := range s.Member.Requests {
		if r.Status.NodeName == name {
			return r.Status.ReservationName
		}
	}
	return ""
}

// requestOfPod returns the ResourceRequest that a pod selects, or nil if there is none.
func (s *Snapshot) requestOfPod(pod *corev1.Pod) *agentv1alpha1.ResourceRequest {
	name := pod.Spec.NodeSelector[agentv1alpha1.RequestLabel]
	if s.Member == nil || name == "" {
		return nil
	}
	namespace := cmp.Or(pod.Spec.NodeSelector[agentv1alpha1.RequestNamespaceLabel], pod.Namespace)
	for _, r := range s.Member.Requests {
		if labels := agentv1alpha1.RequestNodeLabels(r.Namespace, r.Name); r.Namespace == namespace && labels[agentv1alpha1.RequestLabel] == name {
			return r
		}
	}
	return nil
}

// Names returns the objects whose names shells complete: those of requests, reservations, clusters and virtual nodes.
func (s *Snapshot) Names() (names []Ref) {
	for o := range s.allObjects() {
		if slices.Contains([]string{"ResourceRequest", "Reservation", "ClusterAdvertisement"}, o.Ref.Kind) {
			names = append(names, o.Ref)
		}
	}
	slices.SortFunc(names, compareRefs)
	if s.Member != nil {
		for _, node := range s.Member.Nodes {
			names = append(names, Ref{Kind: "Node", Name: node.Name})
		}
	}
	return names
}
