package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Change is a change of one object. The command watch prints each change as one line.
type Change struct {
	At metav1.Time `json:"at"`
	Ref
	// Text says what changed. Message is the message of the changed condition, or of the status if
	// the phase changed.
	Text    string `json:"text"`
	Message string `json:"message,omitempty"`
	Level   Level  `json:"level,omitempty"`
}

// Tracker remembers the last known state of objects, and returns what has changed when it sees a
// new state.
type Tracker struct {
	seen map[Ref]object
}

// NewTracker returns a tracker that knows no objects.
func NewTracker() *Tracker { return &Tracker{seen: map[Ref]object{}} }

// Concerns reports whether a query can mean an object: the query names the object, its
// reservation, a placement of that reservation, or its cluster.
func Concerns(value any, q Query) bool {
	o := objectOf(value)
	return o.Ref.Kind != "" && isNamed(&o, q)
}

// Remember records the present state of an object without returning changes. It is called for
// the objects that exist when a watch begins.
func (t *Tracker) Remember(value any) {
	o := objectOf(value)
	t.seen[o.Ref] = o
}

// Observe records the state of an object and returns what has changed since its previous state. It
// ignores objects of kinds that the tracker does not know.
func (t *Tracker) Observe(value any, at time.Time) []Change {
	o := objectOf(value)
	if o.Ref.Kind == "" {
		return nil
	}
	before, known := t.seen[o.Ref]
	t.seen[o.Ref] = o
	var changes []Change
	add := func(level Level, message, format string, args ...any) {
		changes = append(changes, Change{At: metav1.NewTime(at), Ref: o.Ref, Text: fmt.Sprintf(format, args...), Message: message, Level: level})
	}
	switch {
	case !known:
		add(Normal, o.Message, "%s", strings.TrimSpace("made "+o.Phase))
	case before.Phase != o.Phase:
		level := Normal
		if o.Phase == string(brokerv1alpha1.ReservationFailed) {
			level = Failure
		}
		add(level, o.Message, "%s -> %s", cmp.Or(before.Phase, "new"), o.Phase)
	}
	if known && o.Deleting && !before.Deleting {
		add(Normal, "", "is being deleted")
	}
	for _, c := range o.Conditions {
		was := slices.IndexFunc(before.Conditions, func(b metav1.Condition) bool { return b.Type == c.Type })
		if known && was >= 0 && before.Conditions[was].Status == c.Status && before.Conditions[was].Reason == c.Reason {
			continue
		}
		if !known && c.Status == metav1.ConditionUnknown {
			continue // a default that the API server has set
		}
		add(reasonOf(o.Ref.subject(), c.Reason).Level, c.Message, "%s %s (%s)", c.Type, c.Status, c.Reason)
	}
	return changes
}

// Forget removes a deleted object from the tracker, and returns the deletion as a change. It
// ignores objects of kinds that the tracker does not know.
func (t *Tracker) Forget(value any, at time.Time) []Change {
	o := objectOf(value)
	if o.Ref.Kind == "" {
		return nil
	}
	delete(t.seen, o.Ref)
	return []Change{{At: metav1.NewTime(at), Ref: o.Ref, Text: "is gone"}}
}

// Describe returns the change as one line of text.
func (c *Change) Describe(paint Paint) string {
	name := c.Short()
	if c.Namespace != "" {
		name = c.Namespace + " " + name
	}
	line := c.At.UTC().Format("15:04:05") + "  " + Clean(name) + "  " + paint(c.Level, Clean(c.Text))
	if c.Message != "" {
		line += "  " + Clean(c.Message)
	}
	return line
}
