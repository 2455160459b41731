package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Event is one change of the book.
type Event struct {
	// At is when the change was made, by the broker's clock.
	At time.Time
	// By is who caused the event; "" for the usual author of such an event, see Actor.
	By     Actor
	Change Change
}

// Change is the effect of an event on the book. The types in changeTypes implement it.
type Change interface {
	// subject returns the name of the one reservation that the change concerns, "" if it concerns
	// none or several.
	subject() string
	// checkAgainst returns an error if the state does not allow the change.
	checkAgainst(s *State) error
	// applyTo makes the change, which checkAgainst has allowed. It cannot fail.
	applyTo(s *State, at time.Time)
}

// changeTypes maps the name of each kind of change in the journal to its type. A journal
// contains no other kinds.
var changeTypes = map[string]reflect.Type{
	// Clusters.
	"offer":      reflect.TypeFor[*Offer](),
	"usage":      reflect.TypeFor[*Usage](),
	"configure":  reflect.TypeFor[*Configure](),
	"silence":    reflect.TypeFor[*Silence](),
	"liftPauses": reflect.TypeFor[*LiftPauses](),

	"forgetCluster": reflect.TypeFor[*ForgetCluster](),
	// Reservations.
	"reserve": reflect.TypeFor[*Reserve](),
	"edit":    reflect.TypeFor[*Edit](),
	"renew":   reflect.TypeFor[*Renew](),
	"end":     reflect.TypeFor[*End](),
	"close":   reflect.TypeFor[*Close](),
	"shut":    reflect.TypeFor[*CloseKey](),
	"forget":  reflect.TypeFor[*Forget](),
	// Placements.
	"move":         reflect.TypeFor[*Move](),
	"provision":    reflect.TypeFor[*Provision](),
	"acknowledge":  reflect.TypeFor[*Acknowledge](),
	"settle":       reflect.TypeFor[*Settle](),
	"connect":      reflect.TypeFor[*Connect](),
	"nodeReady":    reflect.TypeFor[*NodeReady](),
	"exceed":       reflect.TypeFor[*Exceed](),
	"idle":         reflect.TypeFor[*Idle](),
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
	"keep":    reflect.TypeFor[*HoldQuote](),
	"take":    reflect.TypeFor[*TakeQuote](),
	"letGo":   reflect.TypeFor[*EndQuote](),
	// Recovery from an older state.
	"lineage":   reflect.TypeFor[*Lineage](),
	"announced": reflect.TypeFor[*Announced](),
	"adopt":     reflect.TypeFor[*Adopt](),
	"restate":   reflect.TypeFor[*Restate](),
	"claim":     reflect.TypeFor[*Claim](),
	// The accounts.
	"observe":     reflect.TypeFor[*Observe](),
	"closePeriod": reflect.TypeFor[*ClosePeriod](),
	// The history of ended reservations.
	"closeBatch": reflect.TypeFor[*CloseBatch](),
}

// kinds maps the types of changes to their names in the journal.
var kinds = func() map[reflect.Type]string {
	out := make(map[reflect.Type]string, len(changeTypes))
	for kind, t := range changeTypes {
		out[t] = kind
	}
	return out
}()

// Kinds returns the names of all kinds of changes in the journal. The order is random.
func Kinds() []string { return slices.Collect(maps.Keys(changeTypes)) }

// Reservation returns the name of the reservation that the event concerns, "" if it concerns
// none or several.
func (e *Event) Reservation() string { return e.Change.subject() }

// Checked is an event that the state allows. It can be applied as long as no other event has been
// applied.
type Checked struct {
	state *State
	event *Event
	// position is the position of the state when the event was checked.
	position uint64
}

// Check checks an event and returns it ready to be applied. If the state does not allow the event,
// Check returns the reason as an error. Check does not change the state.
func (s *State) Check(e *Event) (Checked, error) {
	if kinds[reflect.TypeOf(e.Change)] == "" {
		return Checked{}, fmt.Errorf("%w: an event of type %T", ErrMalformed, e.Change)
	}
	if err := e.By.check(); err != nil {
		return Checked{}, err
	}
	return Checked{s, e, s.position}, e.Change.checkAgainst(s)
}

// Apply applies the event, which is stored at the given position in the log. It panics if the state
// has changed since Check.
func (c Checked) Apply(position uint64) {
	if c.state.position != c.position {
		panic(fmt.Sprintf("ledger: event %d was checked at position %d and is applied at %d", position, c.position, c.state.position))
	}
	name := c.event.Change.subject()
	metered := c.state.reservations[name].Metered()
	c.state.position, c.state.by = position, c.event.By
	c.state.latest = max(c.state.latest, instantOf(c.event.At))
	c.event.Change.applyTo(c.state, c.event.At)
	c.state.by = ""
	c.state.updateMeter(c.state.reservations[name], metered)
}

// Apply checks and applies an event of the log. After an error, nothing has changed.
func (s *State) Apply(position uint64, e *Event) error {
	checked, err := s.Check(e)
	if err == nil {
		checked.Apply(position)
	}
	return err
}

// The journal stores events as {"at":TIME,"by":ACTOR,"KIND":CHANGE}. It omits "by" for an empty
// actor.
const (
	atKey   = `{"at":"`
	byKey   = `by":"`
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
	out = append(out, kindKey...)
	if e.By != "" {
		by, err := json.Marshal(string(e.By))
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, byKey...), by[1:len(by)-1]...), kindKey...)
	}
	out = append(append(out, kind...), `":`...)
	return append(append(out, change...), '}'), nil
}

// UnmarshalJSON reads only the exact form that MarshalJSON writes. A general parser would be
// slower, because it would scan every record three times, and a replica that takes over reads all
// records.
func (e *Event) UnmarshalJSON(text []byte) error {
	rest, isEvent := bytes.CutPrefix(text, []byte(atKey))
	at, rest, hasTime := bytes.Cut(rest, []byte(kindKey))
	by, rest, err := cutActor(rest)
	if err != nil {
		return err
	}
	kind, rest, hasKind := bytes.Cut(rest, []byte(`":`))
	change, isClosed := bytes.CutSuffix(rest, []byte("}"))
	if !isEvent || !hasTime || !hasKind || !isClosed {
		return fmt.Errorf("%w: want {\"at\":TIME,\"by\":ACTOR,\"KIND\":CHANGE}", ErrMalformed)
	}
	known, ok := changeTypes[string(kind)]
	if !ok {
		return fmt.Errorf("%w: unknown kind of event %.40q", ErrMalformed, kind)
	}
	if err := e.At.UnmarshalText(at); err != nil {
		return fmt.Errorf("time of an event: %w", err)
	}
	e.By, e.Change = by, reflect.New(known.Elem()).Interface().(Change)
	if err := json.Unmarshal(change, e.Change); err != nil {
		return fmt.Errorf("event of kind %q: %w", kind, err)
	}
	return nil
}

func cutActor(text []byte) (Actor, []byte, error) {
	rest, found := bytes.CutPrefix(text, []byte(byKey))
	if !found {
		return "", text, nil
	}
	end := 0
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) || !bytes.HasPrefix(rest[end:], []byte(kindKey)) {
		return "", nil, fmt.Errorf("%w: the actor of an event has no end", ErrMalformed)
	}
	var by Actor
	if err := json.Unmarshal(text[len(byKey)-1:len(byKey)+end+1], &by); err != nil {
		return "", nil, fmt.Errorf("actor of an event: %w", err)
	}
	return by, rest[end+len(kindKey):], nil
}
