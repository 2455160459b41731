package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Top is the output of the command top: how much is reserved, and how much of it is used.
type Top struct {
	metav1.TypeMeta `json:",inline"`
	// By says what each item is: a cluster, a requester or a placement. It is one of the values below.
	By    string `json:"by"`
	Items []Use  `json:"items"`
	Gaps  []Gap  `json:"gaps,omitempty"`
}

// Use is one item of Top: what a cluster, a requester or a placement uses. All amounts are in base units:
// millicores, bytes or pieces.
type Use struct {
	Ref `json:",inline"`
	// Role is the role of this cluster in the placement: "consumer" or "provider". It is "" if the item is not a
	// placement.
	Role string `json:"role,omitempty"`
	// Peer is the ID of the other cluster in the placement. It is "" if the item is not a placement.
	Peer string `json:"peer,omitempty"`
	// Count is the number of reservations of the cluster or requester. It is 0 for a placement.
	Count  int    `json:"count,omitempty"`
	Phase  string `json:"phase,omitempty"`
	Shares []Load `json:"shares"`
	// PendingPods is the number of the cluster's own pods for which its scheduler finds no node. PendingSince is when
	// the first of them began to wait. Both are set only for clusters.
	PendingPods  int64        `json:"pendingPods,omitempty"`
	PendingSince *metav1.Time `json:"pendingSince,omitempty"`
}

// Load says how much of one resource is reserved and how much is used.
type Load struct {
	Resource corev1.ResourceName `json:"resource"`
	// Total is the cluster's allocatable amount. Only items for clusters have Total, Own and Free.
	Total int64 `json:"total,omitempty"`
	// Own is the amount that the cluster's own pods request.
	Own      int64 `json:"own,omitempty"`
	Reserved int64 `json:"reserved"`
	// Idle is the part of Reserved that belongs to idle reservations. Only items for clusters and requesters have it.
	Idle int64 `json:"idle,omitempty"`
	// Used is the amount that the pods of a placement request. It is nil if this is not known.
	Used *int64 `json:"used,omitempty"`
	Free int64  `json:"free,omitempty"`
	// Pending is the sum of the requests of the cluster's own pods for which its scheduler finds no node.
	Pending int64 `json:"pending,omitempty"`
}

// Values of Top.By. In a broker's cluster, the items are clusters or requesters. In a member, they are placements.
const (
	ByClusters   = "clusters"
	ByRequesters = "requesters"
	ByPlacements = "placements"
)

// NewTopClusters returns a Top with one item for each ClusterAdvertisement.
func NewTopClusters(s *Snapshot) *Top {
	top, _, _ := TopClusters(s, Selection{})
	return top
}

// TopClusters returns a Top with one item for each selected cluster on a page. total is how many clusters are
// selected, and next is the value of Selection.After for the next page, "" if there is none.
func TopClusters(s *Snapshot, by Selection) (top *Top, total int, next string) {
	top = newTop(ByClusters, s.gapsOf("clusteradvertisements"))
	page, total, next := selectPage(s.Broker.Clusters, s.Broker.Ordered, by, func(c *brokerv1alpha1.ClusterAdvertisement) traits {
		return traits{phase: c.Status.Phase, provider: c.Spec.ClusterID}
	})
	idle := remembered(s, func(m *memo) *once[map[string]quantity.Amounts] { return &m.idle }, s.sumIdle)
	for _, c := range page {
		use := Use{Ref: objectOf(c).Ref, Phase: c.Status.Phase, Count: int(c.Status.Reservations)}
		for _, share := range sharesOf(&c.Spec.Resources) {
			use.Shares = append(use.Shares, Load{Resource: share.Resource, Total: share.Allocatable, Own: share.Own, Reserved: share.Reserved, Idle: idle[c.Spec.ClusterID][share.Resource], Free: share.Free})
		}
		use.addPending(&c.Status)
		top.Items = append(top.Items, use)
	}
	return top, total, next
}

// sumIdle returns what idle reservations hold on each provider, by its ID.
func (s *Snapshot) sumIdle() map[string]quantity.Amounts {
	out := map[string]quantity.Amounts{}
	for _, r := range s.Broker.Reservations {
		if r.Status.IdleSince != nil && r.Status.Granted != nil {
			addAmounts(out, r.Status.TargetClusterID, baseAmounts(r.Status.Granted.Resources))
		}
	}
	return out
}

func addAmounts(sums map[string]quantity.Amounts, id string, amounts quantity.Amounts) {
	if sums[id] == nil {
		sums[id] = quantity.Amounts{}
	}
	sums[id].AddInPlace(amounts)
}

// DescribeIdle returns the amounts that idle reservations hold, "" if there are none.
func (u *Use) DescribeIdle() string {
	var parts []string
	for _, l := range u.Shares {
		if l.Idle > 0 {
			parts = append(parts, formatNamed(l.Resource, l.Idle))
		}
	}
	return strings.Join(parts, ", ")
}

// addPending adds the pending requests of the cluster's own pods, even for resources that the cluster does not have.
func (u *Use) addPending(status *brokerv1alpha1.ClusterAdvertisementStatus) {
	pending := baseAmounts(status.Pending)
	u.PendingPods, u.PendingSince = pending[corev1.ResourcePods], status.PendingSince
	for i := range u.Shares {
		u.Shares[i].Pending = pending[u.Shares[i].Resource]
		delete(pending, u.Shares[i].Resource)
	}
	delete(pending, corev1.ResourcePods)
	for _, name := range sortedResources(pending) {
		if pending[name] > 0 {
			u.Shares = append(u.Shares, Load{Resource: name, Pending: pending[name]})
		}
	}
}

// describeWait returns the number of the cluster's own pods without a node, and since when the first of them waits;
// "-" if there are none.
func (u *Use) describeWait() string {
	if u.PendingPods <= 0 {
		return "-"
	}
	text := countNoun(int(u.PendingPods), "pod", "pods")
	if u.PendingSince != nil {
		text += " since " + u.PendingSince.UTC().Format(time.RFC3339)
	}
	return text
}

// NewTopRequesters returns a Top with one item for each cluster that holds reserved capacity.
func NewTopRequesters(s *Snapshot) *Top {
	top := newTop(ByRequesters, s.gapsOf("reservations"))
	top.Items = append(top.Items, remembered(s, func(m *memo) *once[[]Use] { return &m.requesters }, s.sumRequesters)...)
	return top
}

// sumRequesters returns what the reservations of each requester hold, ordered by the requester's ID.
func (s *Snapshot) sumRequesters() (items []Use) {
	held, idle, counts, one := map[string]quantity.Amounts{}, map[string]quantity.Amounts{}, map[string]int{}, quantity.Amounts{}
	for _, r := range s.Broker.Reservations {
		if r.Status.Granted == nil {
			continue
		}
		id := r.Spec.RequesterID
		clear(one)
		setBaseAmounts(one, r.Status.Granted.Resources)
		addAmounts(held, id, one)
		counts[id]++
		if r.Status.IdleSince != nil {
			addAmounts(idle, id, one)
		}
	}
	for id, amounts := range held {
		use := Use{Ref: Ref{Kind: "ClusterAdvertisement", Name: id}, Count: counts[id]}
		for _, name := range sortedResources(amounts) {
			use.Shares = append(use.Shares, Load{Resource: name, Reserved: amounts[name], Idle: idle[id][name]})
		}
		items = append(items, use)
	}
	slices.SortFunc(items, func(a, b Use) int { return compareRefs(a.Ref, b.Ref) })
	return items
}

// Usage says how much the pods of each placement request. Consumed is for pods on the virtual nodes of this cluster,
// Provided for pods that run here for other clusters. The keys are names of placements. The usage of a placement
// that is not in the map is not known.
type Usage struct {
	Consumed map[string]corev1.ResourceList
	Provided map[string]corev1.ResourceList
}

// NewTopPlacements returns a Top with one item for each placement of a member.
func NewTopPlacements(s *Snapshot, u Usage) *Top {
	top := newTop(ByPlacements, s.gapsOf("reservationinstructions", "providerinstructions", "pods"))
	add := func(o object, role, peer string, number int32, reserved corev1.ResourceList, usage map[string]corev1.ResourceList) {
		used, known := usage[brokerv1alpha1.PlacementName(o.Reservation, number)]
		top.Items = append(top.Items, Use{Ref: o.Ref, Role: role, Peer: peer, Phase: o.Phase, Shares: loadsOf(reserved, used, known)})
	}
	for _, q := range s.Member.ConsumerInstructions {
		add(objectOf(q), "consumer", q.Spec.TargetClusterID, q.Spec.Placement, q.Spec.Resources, u.Consumed)
	}
	for _, q := range s.Member.ProviderInstructions {
		add(objectOf(q), "provider", q.Spec.RequesterClusterID, q.Spec.Placement, q.Kept(), u.Provided)
	}
	slices.SortFunc(top.Items, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Role, b.Role), compareRefs(a.Ref, b.Ref)) })
	return top
}

func newTop(by string, gaps []Gap) *Top {
	return &Top{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Top"}, By: by, Items: []Use{}, Gaps: gaps}
}

// loadsOf returns how much of each reserved resource is reserved and used. If known is false, the usage is not
// known.
func loadsOf(reserved, used corev1.ResourceList, known bool) (loads []Load) {
	held, taken := baseAmounts(reserved), baseAmounts(used)
	for _, name := range sortedResources(held, taken) {
		if _, asked := held[name]; !asked {
			continue // pods may request resources that are not reserved
		}
		load := Load{Resource: name, Reserved: held[name]}
		if known {
			load.Used = new(taken[name])
		}
		loads = append(loads, load)
	}
	return loads
}

// Table returns the items as a table of text. It has one row for each resource of each item. If the items are
// requesters, it has only one row for each item.
func (t *Top) Table() Table {
	switch t.By {
	case ByClusters:
		return t.clusterTable()
	case ByRequesters:
		return t.requesterTable()
	}
	return t.placementTable()
}

func (t *Top) clusterTable() Table {
	table := Table{Columns: []Column{{Name: "Cluster"}, {Name: "Phase"}, {Name: "Reservations"}, {Name: "Resource"}, {Name: "Reserved, own, rest"}, {Name: "Reserved"}, {Name: "Idle"}, {Name: "Own use"}, {Name: "Free"}, {Name: "Total"},
		{Name: "Pending", Wide: true}, {Name: "Without a node", Wide: true}}}
	for i := range t.Items {
		u := &t.Items[i]
		for j, l := range u.Shares {
			who, wait := []string{u.Name, cmp.Or(u.Phase, "-"), fmt.Sprint(u.Count)}, u.describeWait()
			if j > 0 {
				who, wait = make([]string, 3), ""
			}
			table.Rows = append(table.Rows, Row{Ref: u.Ref, Cells: append(who, string(l.Resource), "["+Bar(barWidth, l.Reserved, l.Own, l.Total)+"]",
				FormatAmount(l.Resource, l.Reserved), FormatAmount(l.Resource, l.Idle), FormatAmount(l.Resource, l.Own), FormatAmount(l.Resource, l.Free), FormatAmount(l.Resource, l.Total), FormatAmount(l.Resource, l.Pending), wait)})
		}
	}
	return table
}

func (t *Top) requesterTable() Table {
	table := Table{Columns: []Column{{Name: "Requester"}, {Name: "Reservations"}, {Name: "Reserved"}, {Name: "Idle"}}}
	for i := range t.Items {
		u := &t.Items[i]
		var parts []string
		for _, l := range u.Shares {
			parts = append(parts, formatNamed(l.Resource, l.Reserved))
		}
		table.Rows = append(table.Rows, Row{Ref: u.Ref, Cells: []string{u.Name, fmt.Sprint(u.Count), strings.Join(parts, ", "), cmp.Or(u.DescribeIdle(), "-")}})
	}
	return table
}

func (t *Top) placementTable() Table {
	table := Table{Columns: []Column{{Name: "Placement"}, {Name: "Role"}, {Name: "Peer"}, {Name: "Phase"}, {Name: "Resource"}, {Name: "Used of reserved"}, {Name: "Used"}, {Name: "Reserved"}, {Name: "Share"}}}
	for i := range t.Items {
		u := &t.Items[i]
		for j, l := range u.Shares {
			who := []string{u.Name, u.Role, u.Peer, cmp.Or(u.Phase, "-")}
			if j > 0 {
				who = []string{"", "", "", ""}
			}
			used, share, bar := "unknown", "-", strings.Repeat("?", barWidth)
			if l.Used != nil {
				used, share, bar = FormatAmount(l.Resource, *l.Used), percent(*l.Used, l.Reserved), Bar(barWidth, *l.Used, 0, l.Reserved)
			}
			table.Rows = append(table.Rows, Row{Ref: u.Ref, Cells: append(who, string(l.Resource), "["+bar+"]", used, FormatAmount(l.Resource, l.Reserved), share)})
		}
	}
	return table
}
