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

// Change is what an event does to the book. Only the types in changes implement it.
type Change interface {
	// kind names the type in the journal.
	kind() string
	// subject is the name of the reservation that the change is about, "" if it is about
	// none or several.
	subject() string
	// check returns why the state does not allow the change, nil if it does.
	check(s *State) error
	// apply makes a change that check has allowed. It cannot fail.
	apply(s *State, at time.Time)
}

// changes has one value of every type of change. A journal holds no others.
var changes = []Change{
	// Clusters.
	&Offer{}, &Usage{}, &Ceilings{}, &Reach{}, &LiftPauses{},
	// Reservations.
	&Reserve{}, &Edit{}, &Renew{}, &End{}, &Close{}, &Shut{}, &Forget{},
	// Placements.
	&Move{}, &Acknowledge{}, &Settle{}, &NodeReady{}, &Exceed{}, &Withdraw{}, &ProviderGone{}, &ConsumerGone{},
	// Placements that are replaced.
	&Heal{}, &Recall{}, &Preempt{},
	// The queue and quotes.
	&Enqueue{}, &Grant{}, &Keep{}, &Take{}, &LetGo{},
	// Recovery from an older state.
	&Lineage{}, &Announced{}, &Adopt{}, &Restate{}, &Claim{},
}

// changeTypes has the types of changes by kind.
var changeTypes = func() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, c := range changes {
		types[c.kind()] = reflect.TypeOf(c)
	}
	return types
}()

// Reservation returns the name of the reservation that the event is about, "" if it is
// about none or several.
func (e *Event) Reservation() string { return e.Change.subject() }

// Checked is an event that its state allows for as long as no other event is applied.
type Checked struct {
	state *State
	event *Event
	// position of the state when it was checked.
	position uint64
}

// Check returns the event ready to be applied, or why the state does not allow it. It
// changes nothing.
func (s *State) Check(e *Event) (Checked, error) {
	if e.Change == nil || changeTypes[e.Change.kind()] != reflect.TypeOf(e.Change) {
		return Checked{}, fmt.Errorf("%w: an event of type %T", ErrMalformed, e.Change)
	}
	return Checked{s, e, s.position}, e.Change.check(s)
}

// Apply makes the event, which is stored at position in the log. It panics if the state
// has changed since Check.
func (c Checked) Apply(position uint64) {
	if c.state.position != c.position {
		panic(fmt.Sprintf("ledger: event %d was checked at position %d and is applied at %d", position, c.position, c.state.position))
	}
	c.state.position = position
	c.event.Change.apply(c.state, c.event.At)
}

// Apply checks and makes an event of the log. If it returns an error, nothing has changed.
func (s *State) Apply(position uint64, e *Event) error {
	checked, err := s.Check(e)
	if err == nil {
		checked.Apply(position)
	}
	return err
}

// The journal has events as {"at":TIME,"KIND":CHANGE}.
const (
	atKey   = `{"at":"`
	kindKey = `","`
)

// MarshalJSON writes the event as the journal has it.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.Change == nil {
		return nil, fmt.Errorf("%w: an event without change", ErrMalformed)
	}
	change, err := json.Marshal(e.Change)
	if err != nil {
		return nil, err
	}
	kind := e.Change.kind()
	out := make([]byte, 0, len(atKey)+len(time.RFC3339Nano)+len(kindKey)+len(kind)+len(`":}`)+len(change))
	if out, err = e.At.AppendText(append(out, atKey...)); err != nil {
		return nil, err
	}
	out = append(append(append(out, kindKey...), kind...), `":`...)
	return append(append(out, change...), '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes and no other JSON: a general parser would
// scan every record three times, and a takeover reads all of them.
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
