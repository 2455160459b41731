package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// APIVersion is the apiVersion of the views in JSON and YAML.
const APIVersion = "view.broker.fluidos.eu/v1alpha1"

// Status is the output of the command status: the state of one cluster on one screen.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	// Context is the name of the cluster. Roles says whether it is a broker's cluster, a member, or both.
	Context string      `json:"context"`
	Roles   []string    `json:"roles"`
	At      metav1.Time `json:"at"`
	// Record is the position of the journal up to which it was replayed. It is 0 if the objects were read from the API
	// server.
	Record uint64 `json:"record,omitempty"`
	// Attention lists the problems that need action. It is empty if there are none.
	Attention []Attention `json:"attention"`
	// Lending says how many clusters take new reservations. It is set only in a broker's cluster.
	Lending *Lending `json:"lending,omitempty"`
	// Market shows how each resource is divided. In a broker's cluster, it is the sum over all clusters that
	// take new reservations; in a member, it describes this cluster.
	Market []Share `json:"market,omitempty"`
	// Drained contains the clusters that BrokerConfig.spec.drains lists. QueuePaused is true while the administrator
	// has paused the queue.
	Drained     []Drained `json:"drained,omitempty"`
	QueuePaused bool      `json:"queuePaused,omitempty"`
	// Counts are the numbers of objects by kind and phase.
	Counts []Count `json:"counts"`
	// Gaps say which objects could not be read.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Lending says how many of the known clusters take new reservations.
type Lending struct {
	Active int `json:"active"`
	Known  int `json:"known"`
}

// Share says how one resource is divided. Amounts are in base units: millicores, bytes or pieces.
type Share struct {
	Resource corev1.ResourceName `json:"resource"`
	// Allocatable is the total that pods can use. Own is what the clusters' own pods request, Reserved what is
	// held for reservations, and Free what can still be reserved.
	Allocatable int64 `json:"allocatable"`
	Own         int64 `json:"own"`
	Reserved    int64 `json:"reserved"`
	Free        int64 `json:"free"`
}

// Count says how many objects of a kind there are, and how many in each phase.
type Count struct {
	Kind   string         `json:"kind"`
	Total  int            `json:"total"`
	Phases map[string]int `json:"phases,omitempty"`
}

// NewStatus returns the status of the cluster in a snapshot.
func NewStatus(s *Snapshot) *Status {
	out := &Status{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Status"},
		Context:  s.Context, Roles: s.Roles(), At: metav1.NewTime(s.At), Record: s.Record, Attention: s.FindAttention(), Gaps: s.Gaps,
		Counts: remembered(s, func(m *memo) *once[[]Count] { return &m.counts }, s.countObjects),
	}
	switch {
	case s.Broker != nil:
		m := remembered(s, func(m *memo) *once[market] { return &m.market }, func() market { return marketOf(s.Broker.Clusters) })
		out.Market, out.Lending = m.shares, m.lending
		out.Drained, out.QueuePaused = s.drainedClusters(), s.isQueuePaused()
	case s.Member != nil && len(s.Member.Advertisements) > 0:
		out.Market = sharesOf(&s.Member.Advertisements[0].Spec.Resources)
	}
	return out
}

// Roles returns the roles of the cluster: broker, member or both.
func (s *Snapshot) Roles() (roles []string) {
	if s.Broker != nil {
		roles = append(roles, "broker")
	}
	if s.Member != nil {
		roles = append(roles, "member")
	}
	return roles
}

// NeedsAttention reports whether there are problems, or objects that could not be read because of a failure.
func (s *Status) NeedsAttention() bool {
	return len(s.Attention) > 0 || slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == Unread })
}

// market holds the sums of the resources of the clusters that take new reservations, and the number of these clusters.
type market struct {
	shares  []Share
	lending *Lending
}

// marketOf sums the resources of the Active clusters, which are those that take new reservations, and counts these
// clusters. The sums are in the order of compareShares.
func marketOf(clusters []*brokerv1alpha1.ClusterAdvertisement) market {
	lending, sums := &Lending{Known: len(clusters)}, map[corev1.ResourceName]Share{}
	for _, c := range clusters {
		if c.Status.Phase != brokerv1alpha1.ClusterAdvertisementActive {
			continue
		}
		lending.Active++
		for _, part := range sharesOf(&c.Spec.Resources) {
			sum := sums[part.Resource]
			sum.Resource = part.Resource
			sum.Allocatable += part.Allocatable
			sum.Own += part.Own
			sum.Reserved += part.Reserved
			sum.Free += part.Free
			sums[part.Resource] = sum
		}
	}
	return market{slices.SortedFunc(maps.Values(sums), compareShares), lending}
}

func compareShares(a, b Share) int { return compareResources(a.Resource, b.Resource) }

// sharesOf returns how each resource of one cluster is divided, in the order of compareShares. Without allocatable
// amounts, it uses the capacity.
func sharesOf(r *brokerv1alpha1.ResourceMetrics) []Share {
	whole := r.Allocatable
	if len(whole) == 0 {
		whole = r.Capacity
	}
	shares := make([]Share, 0, len(whole))
	amountOf := func(list corev1.ResourceList, name corev1.ResourceName) int64 {
		amount, _ := quantity.FromResource(name, list[name]) // 0 if it is not valid: the object may be older than the limits
		return amount
	}
	for name := range whole {
		shares = append(shares, Share{
			Resource: name, Allocatable: amountOf(whole, name), Own: amountOf(r.Allocated, name),
			Reserved: amountOf(r.Reserved, name), Free: amountOf(r.Available, name),
		})
	}
	slices.SortFunc(shares, compareShares)
	return shares
}

// countObjects counts, by phase, the ResourceRequests and ProviderInstructions of a member, and the Reservations and
// ClusterAdvertisements of a broker's cluster.
func (s *Snapshot) countObjects() (counts []Count) {
	if m := s.Member; m != nil {
		counts = append(counts,
			countPhases("ResourceRequest", m.Requests, func(r *agentv1alpha1.ResourceRequest) string { return string(r.Status.Phase) }),
			countPhases("ProviderInstruction", m.ProviderInstructions, func(p *agentv1alpha1.ProviderInstruction) string { return string(p.Status.Phase) }))
	}
	if b := s.Broker; b != nil {
		counts = append(counts,
			countPhases("Reservation", b.Reservations, func(r *brokerv1alpha1.Reservation) string { return string(r.Status.Phase) }),
			countPhases("ClusterAdvertisement", b.Clusters, func(c *brokerv1alpha1.ClusterAdvertisement) string { return c.Status.Phase }))
	}
	return counts
}

// countPhases counts objects by phase. An object without a phase counts as pending.
func countPhases[T any](kind string, items []T, phaseOf func(T) string) Count {
	c := Count{Kind: kind, Total: len(items), Phases: map[string]int{}}
	for _, item := range items {
		c.Phases[cmp.Or(phaseOf(item), string(brokerv1alpha1.ReservationPending))]++
	}
	return c
}

// phaseOrder is the order in which describe lists phases. Phases that are missing here come before them.
var phaseOrder = []string{
	"Active", "Reserved", "Peering", "AwaitingNode", "Queued", "Pending", "Stale", "Paused", "Inactive", "Denied", "Refused", "Releasing", "Released", "Failed",
}

// describe returns the counted phases as text, in the order of phaseOrder, for example "41 Active, 2 Reserved". It
// returns "none" if there are no objects.
func (c *Count) describe() string {
	names := slices.SortedFunc(maps.Keys(c.Phases), func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(phaseOrder, a), slices.Index(phaseOrder, b)), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", c.Phases[name], name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
