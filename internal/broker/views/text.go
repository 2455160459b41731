package views

import (
	"fmt"
	"slices"
	"strings"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// DescribeState describes the state of a reservation in a sentence.
func (v *Views) DescribeState(r *ledger.Reservation) string {
	p := r.Serving()
	switch phase := r.Phase(); {
	case phase == ledger.Queued:
		return v.s.DescribeWait(r)
	case r.Notice != nil:
		return v.s.NoticeMessage(r)
	case r.CalledBack() != nil:
		return v.recallMessage(r)
	case r.Beside(p) != nil:
		return describeHealing(v.s.Book(), r)
	case phase == ledger.Active && r.IdleNow() != nil:
		return describeIdle(r) + DescribeExcess(p)
	case phase == ledger.Active:
		return fmt.Sprintf("virtual node %s on %s is Ready", brokerv1alpha1.PlacementName(r.Name, p.Number), p.Provider) + DescribeExcess(p)
	case phase == ledger.Releasing:
		return fmt.Sprintf("%s; waiting for %s to take everything down", term.EndOf(r), strings.Join(v.unfinishedClusters(r), " and "))
	case len(r.Placements) == 0:
		return term.EndOf(r)
	case r.EndReason != "" && !r.Over():
		return fmt.Sprintf("%s; everything is released, and %s, which is silent, removes its side once it is back", term.EndOf(r), r.Requester)
	case phase == ledger.Released, phase == ledger.Failed:
		return term.EndOf(r) + "; everything is released"
	}
	return v.describeSetup(r, p)
}

// describeSetup says what is still missing until the node of a placement is Ready.
func (v *Views) describeSetup(r *ledger.Reservation, p *ledger.Placement) string {
	if !v.s.Book().HasAgent(p.Provider) {
		return fmt.Sprintf("capacity of %s is locked; it has no agent to acknowledge it", p.Provider)
	}
	if c := r.ProvisioningOf(p); c != nil {
		return fmt.Sprintf("%s creates nodes, which must be Ready by %s", p.Provider, c.Ends.UTC().Format(time.RFC3339))
	}
	if p.AcknowledgedAt.IsZero() {
		return fmt.Sprintf("capacity of %s is locked; waiting for its agent to acknowledge", p.Provider)
	}
	if !v.s.Book().HasAgent(r.Requester) {
		return fmt.Sprintf("capacity of %s is locked; %q is not an enrolled cluster, so no cluster peers", p.Provider, r.Requester)
	}
	if p.IsUnready() {
		return fmt.Sprintf("virtual node %s on %s has not been Ready since %s", brokerv1alpha1.PlacementName(r.Name, p.Number), p.Provider, p.NodeSince.Time().Format(time.RFC3339))
	}
	if by := v.connectBy(r, p); !by.IsZero() {
		return fmt.Sprintf("setting up the network between %s and %s until %s", r.Requester, p.Provider, by.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("capacity of %s is locked and acknowledged; waiting for the virtual node of %s", p.Provider, r.Requester)
}

func (v *Views) unfinishedClusters(r *ledger.Reservation) []string {
	var out []string
	add := func(id string) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		if !p.ConsumerGone && v.s.Book().HasAgent(r.Requester) {
			add(r.Requester)
		}
		if !p.ProviderGone {
			add(p.Provider)
		}
	}
	return out
}

// recallMessage says until when a recalled placement stays, and what happens then.
func (v *Views) recallMessage(r *ledger.Reservation) string {
	c := r.CalledBack()
	p := r.Placement(c.Placement)
	why := ""
	if c.Message != "" {
		why = fmt.Sprintf(" (%s)", c.Message)
	}
	then := "then it ends, unless another cluster has room"
	if next := r.Beside(p); next != nil {
		then = fmt.Sprintf("%s takes over once the virtual node %s is Ready", next.Provider, brokerv1alpha1.PlacementName(r.Name, next.Number))
	} else if r.Queue {
		then = "then it goes elsewhere or waits for capacity"
	}
	who := p.Provider + " calls its capacity back"
	if c.IsDrain() {
		who = "the broker's administrator drains " + p.Provider
	}
	return fmt.Sprintf("%s%s: the placement there ends at %s; %s", who, why, c.Ends.UTC().Format(time.RFC3339), then)
}

// silentProvider returns the silent provider of a reservation and when it was last heard, "" if
// none is silent. If two providers are silent, it returns that of the older placement.
func silentProvider(book *ledger.State, r *ledger.Reservation) (string, time.Time) {
	for i := range r.Placements {
		p := &r.Placements[i]
		if since := book.Cluster(p.Provider).LostSince; r.Stands(p) && !since.IsZero() {
			return p.Provider, since
		}
	}
	return "", time.Time{}
}

// describeHealing says, for people, which provider takes over from which while a reservation keeps
// its old placement next to the new one. It returns "" for any other reservation.
func describeHealing(book *ledger.State, r *ledger.Reservation) string {
	p := r.Current()
	older := r.Beside(p)
	if older == nil {
		return ""
	}
	if book.WhyLeft(r, older) == ledger.NodeLost {
		return fmt.Sprintf("the virtual node %s on %s is not Ready; %s takes over once its virtual node %s is",
			brokerv1alpha1.PlacementName(r.Name, older.Number), older.Provider, p.Provider, brokerv1alpha1.PlacementName(r.Name, p.Number))
	}
	return fmt.Sprintf("%s is silent; %s takes over, and workloads on %s stay until the virtual node %s is Ready",
		older.Provider, p.Provider, older.Provider, brokerv1alpha1.PlacementName(r.Name, p.Number))
}

// describeIdle returns a text that says since when a reservation has been idle, and what will happen.
func describeIdle(r *ledger.Reservation) string {
	known := r.IdleNow()
	text := fmt.Sprintf("nobody uses it since %s: no pod is on virtual node %s", known.Since.UTC().Format(time.RFC3339), brokerv1alpha1.PlacementName(r.Name, known.Placement))
	if known.Ends.IsZero() {
		return text
	}
	return fmt.Sprintf("%s; it is released at %s unless a pod comes", text, known.Ends.UTC().Format(time.RFC3339))
}

// DescribeExcess returns a text for the requester about the pods that its provider evicted, "" if
// there is no excess.
func DescribeExcess(p *ledger.Placement) string {
	if p.Excess == nil {
		return ""
	}
	what := fmt.Sprintf("evicted %d pods that exceeded the grant", p.Excess.Pods)
	if p.Excess.Pods == 0 { // the first report precedes the evictions
		what = "evicts pods that exceed the grant"
	}
	return fmt.Sprintf("; %s %s by %s: run no more than is granted, or ask for more", p.Provider, what, p.Excess.Amounts.Describe())
}
