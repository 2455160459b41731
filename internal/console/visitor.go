package console

import (
	"context"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// If the user may not list a kind in all namespaces, the user's rights are checked in at most maxNamespaces of them.
// Objects in all other namespaces are hidden.
const maxNamespaces = 100

// visitor is the user of a request.
type visitor struct {
	info    *authenticationv1.UserInfo
	token   string
	reviews reviewer
}

// limitTo returns the part of a snapshot that the visitor may list. Its gaps say what is hidden. If the visitor may not
// list a kind in all namespaces, limitTo checks at most maxNamespaces namespaces, the given one first.
func (v *visitor) limitTo(ctx context.Context, whole *shared, namespace string) (*view.Snapshot, error) {
	f := &filter{ctx: ctx, visitor: v, named: namespace, parts: whole.parts}
	build := func() *view.Snapshot { return new(whole.Snapshot) }
	if b := whole.Broker; b != nil {
		build = f.limitBroker(b, build)
	}
	if m := whole.Member; m != nil {
		build = f.limitMember(m, build)
	}
	if f.err != nil {
		return nil, f.err
	}
	part := whole.parts.partFor(strings.Join(f.rights, ";"), build)
	out := *part
	out.At, out.Gaps = whole.At, append(slices.Clone(whole.Gaps), f.gaps...)
	return &out, nil
}

// limitBroker asks which objects of a broker's cluster the visitor may list. It returns a function that builds a
// snapshot with them.
func (f *filter) limitBroker(b *view.BrokerObjects, build func() *view.Snapshot) func() *view.Snapshot {
	group := brokerv1alpha1.GroupVersion.Group
	clusters := limitKind(f, group, "clusteradvertisements", b.Clusters)
	reservations := limitKind(f, group, "reservations", b.Reservations)
	seesConfig := f.mayListAll(group, "brokerconfigs")
	return func() *view.Snapshot {
		s := build()
		s.Broker = &view.BrokerObjects{Clusters: clusters(), Reservations: reservations(), Ordered: b.Ordered}
		if seesConfig {
			s.Broker.Config = b.Config
		}
		return s
	}
}

// limitMember does for a member cluster what limitBroker does for a broker's.
func (f *filter) limitMember(m *view.MemberObjects, build func() *view.Snapshot) func() *view.Snapshot {
	group := agentv1alpha1.GroupVersion.Group
	requests := limitKind(f, group, "resourcerequests", m.Requests)
	consumers := limitKind(f, group, "reservationinstructions", m.ConsumerInstructions)
	providers := limitKind(f, group, "providerinstructions", m.ProviderInstructions)
	advertisements := limitKind(f, group, "advertisements", m.Advertisements)
	seesPolicies, seesNodes := f.mayListAll(group, "lendingpolicies"), f.mayListAll(corev1.GroupName, "nodes")
	return func() *view.Snapshot {
		s := build()
		s.Member = &view.MemberObjects{Requests: requests(), ConsumerInstructions: consumers(), ProviderInstructions: providers(), Advertisements: advertisements()}
		if seesPolicies {
			s.Member.Policies = m.Policies
		}
		if seesNodes {
			s.Member.Nodes = m.Nodes
		}
		return s
	}
}

// filter finds out which objects the visitor may list, and records gaps for the others. After an error it checks no more
// rights.
type filter struct {
	ctx     context.Context
	visitor *visitor
	// named is the namespace that the address of the page names, or "".
	named string
	parts *parts
	// rights are texts that say what the visitor may list, one for each kind.
	rights []string
	gaps   []view.Gap
	err    error
}

func (f *filter) askRight(group, resource, namespace string) bool {
	if f.err != nil {
		return false
	}
	allowed, err := f.visitor.reviews.mayList(f.ctx, f.visitor.info, group, resource, namespace)
	f.err = err
	return allowed
}

// inAllNamespaces is the text in filter.rights for a kind that the visitor may list everywhere.
const inAllNamespaces = "*"

// mayListAll reports whether the visitor may list a cluster-scoped kind. If not, it records a gap.
func (f *filter) mayListAll(group, resource string) bool {
	if f.askRight(group, resource, "") {
		f.rights = append(f.rights, inAllNamespaces)
		return true
	}
	f.rights = append(f.rights, "")
	f.gaps = append(f.gaps, view.Gap{Kind: view.Hidden, Resource: resource})
	return false
}

// limitKind returns a function that returns the objects in those namespaces in which the visitor may list the kind. The
// gap that it records does not reveal whether hidden objects exist.
func limitKind[T metav1.Object](f *filter, group, resource string, items []T) func() []T {
	if f.askRight(group, resource, "") {
		f.rights = append(f.rights, inAllNamespaces)
		return func() []T { return items }
	}
	all := f.parts.namespacesOf(resource, len(items), func(i int) string { return items[i].GetNamespace() })
	var names []string
	for _, namespace := range f.firstNamespaces(all) {
		if f.askRight(group, resource, namespace) {
			names = append(names, namespace)
		}
	}
	slices.Sort(names)
	f.rights = append(f.rights, strings.Join(names, ","))
	f.gaps = append(f.gaps, view.Gap{Kind: view.Hidden, Resource: resource, Namespace: strings.Join(names, ", ")})
	return func() (shown []T) {
		for _, item := range items {
			if _, allowed := slices.BinarySearch(names, item.GetNamespace()); allowed {
				shown = append(shown, item)
			}
		}
		return shown
	}
}

// firstNamespaces returns up to maxNamespaces of the sorted namespaces. If the namespace that the visitor named is one
// of them, it is always returned.
func (f *filter) firstNamespaces(all []string) []string {
	first := slices.Clone(all[:min(len(all), maxNamespaces)])
	if i, found := slices.BinarySearch(all, f.named); found && i >= len(first) {
		first[len(first)-1] = f.named
	}
	return first
}
