package burst

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Waiting counts unschedulable pods of one kind and size.
type Waiting struct {
	Kind Kind
	// Shape is what one pod requests, with itself as 1 of the resource "pods".
	Shape quantity.Amounts
	Pods  int64
	// Oldest is when the scheduler first found no node for the pod that has waited longest.
	Oldest time.Time
	// Examples names a few of the pods if the policy skips them. It is empty for all other pods.
	Examples []Pod
}

// Pod identifies a pod, whose namespace is that of the policy.
type Pod struct{ Name, UID string }

// Skipped are the pods that a policy skips for one reason.
type Skipped struct {
	Skip     Skip
	Pods     int64
	Examples []Pod
}

// Wanted holds what all requests of a group ask for: pods of one size, at providers that meet the constraints.
type Wanted struct {
	Shape       quantity.Amounts
	Constraints *brokerv1alpha1.Constraints
}

// Grouping is the result of GroupPods. Every waiting pod of the policy is either in a group or skipped.
type Grouping struct {
	Groups []Group
	// Wants are the requirements of each group, by its ID.
	Wants   map[string]Wanted
	Skipped []Skipped
}

// GroupPods divides waiting pods into groups, whose IDs also depend on the seed: a text that identifies
// the policy and its template. Groups are sorted by ID, skipped pods by reason.
func GroupPods(waiting []Waiting, seed string, template *brokerv1alpha1.Constraints, limit quantity.Amounts) Grouping {
	out := Grouping{Wants: map[string]Wanted{}}
	skipped := map[Skip]*Skipped{}
	groups := map[string]*Group{}
	for i := range waiting {
		w := &waiting[i]
		skip := w.Kind.Skip
		var constraints *brokerv1alpha1.Constraints
		if skip == "" {
			var allowed bool
			if constraints, allowed = w.Kind.Places.Constrain(template); !allowed {
				skip = SkipPlaces
			} else if !fitsLimit(w.Shape, limit) {
				skip = SkipTooLarge
			}
		}
		if skip != "" {
			s := skipped[skip]
			if s == nil {
				s = &Skipped{Skip: skip}
				skipped[skip] = s
			}
			s.Pods += w.Pods
			s.Examples = append(s.Examples, w.Examples...)
			continue
		}
		id := groupID(seed, &w.Kind.Places, w.Shape)
		g := groups[id]
		if g == nil {
			g = &Group{ID: id, Shape: w.Shape, Oldest: w.Oldest}
			groups[id] = g
			out.Wants[id] = Wanted{Shape: w.Shape, Constraints: constraints}
		}
		g.Pods += w.Pods
		if w.Oldest.Before(g.Oldest) {
			g.Oldest = w.Oldest
		}
	}
	for _, g := range groups {
		out.Groups = append(out.Groups, *g)
	}
	slices.SortFunc(out.Groups, func(a, b Group) int { return strings.Compare(a.ID, b.ID) })
	for _, s := range skipped {
		slices.SortFunc(s.Examples, func(a, b Pod) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID)) })
		out.Skipped = append(out.Skipped, *s)
	}
	slices.SortFunc(out.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Skip, b.Skip) })
	return out
}

// fitsLimit reports whether one pod fits into the limit.
func fitsLimit(shape, limit quantity.Amounts) bool {
	for name, most := range limit {
		if shape[name] > most {
			return false
		}
	}
	return true
}

// groupID returns the ID of a group: eight hexadecimal digits of a hash, so that names of requests stay short.
func groupID(seed string, places *Places, shape quantity.Amounts) string {
	text := []byte(seed + "\n" + places.Key())
	for _, name := range shape.Names() {
		if shape[name] != 0 {
			text = fmt.Appendf(text, "\n%s=%d", name, shape[name])
		}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:8]
}

// GroupOf returns the group of a request by the request's name; "" if the name does not have the form that the policy
// gives to its requests.
func GroupOf(policy, request string) string {
	rest, found := strings.CutPrefix(request, policy+"-")
	if group, _, numbered := strings.Cut(rest, "-"); found && numbered && len(group) == 8 {
		return group
	}
	return ""
}

// IdleClock remembers since when requests have been idle or over. It is kept in memory only. After a restart of the agent
// it starts from zero, so that a request never counts as idle for a time in which no agent watched it.
type IdleClock struct {
	seen map[string]idle
}

type idle struct {
	since    time.Time
	arrivals uint64
}

// Observe returns since when a request has been idle; the zero time if it is busy. arrivals counts
// the pods that ever came to its node, so that a pod that came and went between two calls restarts
// the idle time.
func (c *IdleClock) Observe(id string, busy bool, arrivals uint64, now time.Time) time.Time {
	if c.seen == nil {
		c.seen = map[string]idle{}
	}
	was, known := c.seen[id]
	switch {
	case busy:
		delete(c.seen, id)
		return time.Time{}
	case !known || was.arrivals != arrivals:
		was = idle{now, arrivals}
		c.seen[id] = was
	}
	return was.since
}

// ObserveOver returns when a request that is over was first seen so. Its conditions do not say that: one that was False
// while the request waited keeps the time of then.
func (c *IdleClock) ObserveOver(id string, now time.Time) time.Time {
	return c.Observe(id, false, math.MaxUint64, now)
}

// Forget drops what is remembered of a request.
func (c *IdleClock) Forget(id string) { delete(c.seen, id) }
