package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Event is one change of the book.
type Event struct {
	// At is the broker's time of the change.
	At     time.Time
	Change Change
}

// Change is the effect of an event on the book. The types in changeTypes implement it.
type Change interface {
	// subject returns the name of the reservation that the change concerns, "" if it concerns
	// none or several.
	subject() string
	// checkAgainst returns why the state does not allow the change, nil if it does.
	checkAgainst(s *State) error
	// applyTo makes a change that checkAgainst has allowed. It cannot fail.
	applyTo(s *State, at time.Time)
}

// changeTypes maps the name of each kind of change in the journal to its type. A journal
// contains no other kinds.
var changeTypes = map[string]reflect.Type{
	// Clusters.
	"offer":      reflect.TypeFor[*Offer](),
	"usage":      reflect.TypeFor[*Usage](),
	"ceilings":   reflect.TypeFor[*Ceilings](),
	"silence":    reflect.TypeFor[*Silence](),
	"liftPauses": reflect.TypeFor[*LiftPauses](),

	"forgetCluster": reflect.TypeFor[*ForgetCluster](),
	// Reservations.
	"reserve": reflect.TypeFor[*Reserve](),
	"edit":    reflect.TypeFor[*Edit](),
	"renew":   reflect.TypeFor[*Renew](),
	"end":     reflect.TypeFor[*End](),
	"close":   reflect.TypeFor[*Close](),
	"shut":    reflect.TypeFor[*Shut](),
	"forget":  reflect.TypeFor[*Forget](),
	// Placements.
	"move":         reflect.TypeFor[*Move](),
	"acknowledge":  reflect.TypeFor[*Acknowledge](),
	"settle":       reflect.TypeFor[*Settle](),
	"connect":      reflect.TypeFor[*Connect](),
	"nodeReady":    reflect.TypeFor[*NodeReady](),
	"exceed":       reflect.TypeFor[*Exceed](),
	"withdraw":     reflect.TypeFor[*Withdraw](),
	"providerGone": reflect.TypeFor[*ProviderGone](),
	"consumerGone": reflect.TypeFor[*ConsumerGone](),
	// Placements that are replaced.
	"heal":    reflect.TypeFor[*Heal](),
	"recall":  reflect.TypeFor[*Recall](),
	"preempt": reflect.TypeFor[*Preempt](),
	// The queue and quotes.
	"enqueue": reflect.TypeFor[*Enqueue](),
	"grant":   reflect.TypeFor[*Grant](),
	"keep":    reflect.TypeFor[*Keep](),
	"take":    reflect.TypeFor[*Take](),
	"letGo":   reflect.TypeFor[*LetGo](),
	// Recovery from an older state.
	"lineage":   reflect.TypeFor[*Lineage](),
	"announced": reflect.TypeFor[*Announced](),
	"adopt":     reflect.TypeFor[*Adopt](),
	"restate":   reflect.TypeFor[*Restate](),
	"claim":     reflect.TypeFor[*Claim](),
}

// kinds is the inverse of changeTypes.
var kinds = func() map[reflect.Type]string {
	out := make(map[reflect.Type]string, len(changeTypes))
	for kind, t := range changeTypes {
		out[t] = kind
	}
	return out
}()

// Reservation returns the name of the reservation that the event concerns, "" if it concerns
// none or several.
func (e *Event) Reservation() string { return e.Change.subject() }

// Checked is an event that the state allows as long as no other event is applied.
type Checked struct {
	state *State
	event *Event
	// position is that of the state at the time of the check.
	position uint64
}

// Check returns the event ready to be applied, or the reason why the state does not allow it.
// It changes nothing.
func (s *State) Check(e *Event) (Checked, error) {
	if kinds[reflect.TypeOf(e.Change)] == "" {
		return Checked{}, fmt.Errorf("%w: an event of type %T", ErrMalformed, e.Change)
	}
	return Checked{s, e, s.position}, e.Change.checkAgainst(s)
}

// Apply applies the event, which is stored at position in the log. It panics if the state has
// changed since Check.
func (c Checked) Apply(position uint64) {
	if c.state.position != c.position {
		panic(fmt.Sprintf("ledger: event %d was checked at position %d and is applied at %d", position, c.position, c.state.position))
	}
	c.state.position = position
	c.event.Change.applyTo(c.state, c.event.At)
}

// Apply checks and applies an event of the log. After an error, nothing has changed.
func (s *State) Apply(position uint64, e *Event) error {
	checked, err := s.Check(e)
	if err == nil {
		checked.Apply(position)
	}
	return err
}

// The journal stores events as {"at":TIME,"KIND":CHANGE}.
const (
	atKey   = `{"at":"`
	kindKey = `","`
)

// MarshalJSON encodes the event in the form of the journal.
func (e Event) MarshalJSON() ([]byte, error) {
	kind := kinds[reflect.TypeOf(e.Change)]
	if kind == "" {
		return nil, fmt.Errorf("%w: an event of type %T", ErrMalformed, e.Change)
	}
	change, err := json.Marshal(e.Change)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(atKey)+len(time.RFC3339Nano)+len(kindKey)+len(kind)+len(`":}`)+len(change))
	if out, err = e.At.AppendText(append(out, atKey...)); err != nil {
		return nil, err
	}
	out = append(append(append(out, kindKey...), kind...), `":`...)
	return append(append(out, change...), '}'), nil
}

// UnmarshalJSON reads only the exact form that MarshalJSON writes: a general parser would scan
// every record three times, and a takeover reads all records.
func (e *Event) UnmarshalJSON(text []byte) error {
	rest, isEvent := bytes.CutPrefix(text, []byte(atKey))
	at, rest, hasTime := bytes.Cut(rest, []byte(kindKey))
	kind, rest, hasKind := bytes.Cut(rest, []byte(`":`))
	change, isClosed := bytes.CutSuffix(rest, []byte("}"))
	if !isEvent || !hasTime || !hasKind || !isClosed {
		return fmt.Errorf("%w: want {\"at\":TIME,\"KIND\":CHANGE}", ErrMalformed)
	}
	known, ok := changeTypes[string(kind)]
	if !ok {
		return fmt.Errorf("%w: unknown kind of event %.40q", ErrMalformed, kind)
	}
	if err := e.At.UnmarshalText(at); err != nil {
		return fmt.Errorf("time of an event: %w", err)
	}
	e.Change = reflect.New(known.Elem()).Interface().(Change)
	if err := json.Unmarshal(change, e.Change); err != nil {
		return fmt.Errorf("event of kind %q: %w", kind, err)
	}
	return nil
}
