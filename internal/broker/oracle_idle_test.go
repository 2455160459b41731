package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/idle"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// idleWord is what two clusters have said about a placement to the present broker: since when no pod is on the
// requester's node, and since when the provider has seen no usage. Each is zero if the cluster's last report said
// otherwise.
type idleWord struct{ vacant, unused time.Time }

func (m *machine) anyIdle(c choose) *v1.Idle {
	if c(3) > 0 {
		return nil
	}
	return &v1.Idle{AfterSeconds: int64(60 + c(120)), Action: oneOf(c, v1.IdleActionNotify, v1.IdleActionRelease, v1.IdleActionRelease)}
}

// anyVacant lists most of the placements of a requester as without pods.
func (m *machine) anyVacant(c choose, adv *v1.Advertisement) {
	for _, name := range m.names {
		r := m.told[name]
		if r == nil || r.requester != adv.ClusterID {
			continue
		}
		for i := range r.placements {
			if c(6) > 0 {
				adv.Vacant = append(adv.Vacant, v1.Vacancy{Reservation: name, Placement: int32(i + 1), Seconds: float64(c(100))})
			}
		}
	}
}

// hearIdle notes what an advertisement says about the use of placements.
func (o *oracle) hearIdle(adv *v1.Advertisement, now time.Time) {
	for _, r := range o.told {
		for i := range r.placements {
			p := &r.placements[i]
			if p.provider == adv.ClusterID {
				unused := false
				for _, u := range adv.Usage {
					unused = unused || u.Reservation == r.name && u.Placement == int32(i+1) && (u.Used["cpu"] == "" || u.Used["cpu"] == "0")
				}
				if !unused {
					p.idle.unused = time.Time{}
				} else if p.idle.unused.IsZero() {
					p.idle.unused = now
				}
			}
			if r.requester == adv.ClusterID {
				since := time.Time{}
				for _, v := range adv.Vacant {
					if v.Reservation == r.name && v.Placement == int32(i+1) {
						since = now.Add(-time.Duration(v.Seconds) * time.Second)
					}
				}
				if since.IsZero() || since.After(p.idle.vacant) {
					p.idle.vacant = since
				}
			}
		}
	}
}

// forgetIdle is called when another broker takes over, because the clusters have not reported to the new broker yet.
func (o *oracle) forgetIdle() {
	for _, r := range o.told {
		for i := range r.placements {
			r.placements[i].idle = idleWord{}
		}
	}
}

// releaseAfter returns the shortest time after which a reservation may be released as idle, 0 for never.
func (o *oracle) releaseAfter(r *told) time.Duration {
	var out time.Duration
	if i := r.request.Idle; i != nil && i.Action == v1.IdleActionRelease {
		out = time.Duration(i.AfterSeconds) * time.Second
	}
	if i := o.rules.idle; i != nil && i.Release && (out == 0 || i.After < out) {
		out = i.After
	}
	return out
}

// idleRightly checks that a reservation is released as idle only after its time, if both clusters
// last reported that it is not used, and if the requester was told half of that time before, or
// idle.LongestNotice if that is shorter.
func (o *oracle) idleRightly(known *told, now time.Time) error {
	after := o.releaseAfter(known)
	if after == 0 {
		return fmt.Errorf("reservation %s was released as idle, and nobody wants that", known.name)
	}
	if len(known.placements) == 0 {
		return fmt.Errorf("reservation %s was released as idle, and has no placement", known.name)
	}
	p := known.placements[len(known.placements)-1]
	since := term.Later(p.idle.vacant, p.idle.unused)
	if p.idle.vacant.IsZero() || p.idle.unused.IsZero() || now.Sub(since) < after {
		return fmt.Errorf("reservation %s was released as idle after %s: no pod since %s, no usage since %s", known.name, after, p.idle.vacant, p.idle.unused)
	}
	for _, id := range []string{known.requester, p.provider} {
		if l := o.lenders[id]; l == nil || !l.agent || now.Sub(l.heard) >= 90*time.Second {
			return fmt.Errorf("reservation %s was released as idle, and %s is silent", known.name, id)
		}
	}
	if t := known.idle; t == nil || t.Ends.IsZero() || now.Before(t.Ends) || now.Sub(known.idleTold) < min(after/2, idle.LongestNotice) {
		return fmt.Errorf("reservation %s was released as idle, and was told %+v at %s", known.name, t, known.idleTold)
	}
	return nil
}

// followIdle notes when the requester was told that its reservation is idle, or that it is no
// longer idle.
func (o *oracle) followIdle(known *told, r *ledger.Reservation, now time.Time) {
	is := r.IdleNow()
	if r.EndReason == "" && (is == nil) != (known.idle == nil) {
		known.idleTold = now
	}
	if r.EndReason == "" {
		known.idle = is
	}
}
