package ledger

import (
	"errors"
	"math"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// TestCheck checks each event against the same book, which has reservations in many states. Apply
// must give the same answer as Check, and change nothing if it refuses.
func TestCheck(t *testing.T) {
	before := []Event{
		offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)), handWritten(oslo, cpu(4000)),
		reserve("live", paris, cpu(3000)),
		reserve("withdrawn", paris, cpu(1000)), withdraw("withdrawn", 1),
		reserve("moved", paris, cpu(1000)), withdraw("moved", 1), move("moved", berlin),
		reserve("ending", berlin, cpu(1000)), end("ending", EndReleased),
		reserve("consumer's", oslo, cpu(1)), end("consumer's", EndReleased),
		reserve("over", oslo, cpu(4000)), end("over", EndReleased), consumerGone("over", 1),
		reserve("forgotten", oslo, cpu(4000)), end("forgotten", EndReleased), consumerGone("forgotten", 1), forget("forgotten"),
		shut(rome, "closed"),
	}
	withKey := func(e Event, key string) Event {
		e.Change.(*Reserve).Key = key
		return e
	}
	empty := func(change func(*Reserve)) Event {
		e := reserve("new", paris, cpu(1))
		change(e.Change.(*Reserve))
		return e
	}
	negativeAllocated := offer(paris, cpu(1))
	negativeAllocated.Change.(*Offer).Allocated = cpu(-1)

	cases := map[string]struct {
		event Event
		want  error
	}{
		"an event that says nothing is malformed":         {Event{}, ErrMalformed},
		"an event of no kind of its own is malformed":     {Event{Change: &Cluster{}}, ErrMalformed},
		"an offer has a cluster":                          {offer("", cpu(1)), ErrMalformed},
		"an offer of an unknown cluster enrols it":        {offer("madrid", cpu(1)), nil},
		"an offer of nothing is an offer":                 {offer(paris, nil), nil},
		"an offer may fall below what is held":            {offer(paris, cpu(1)), nil},
		"nobody offers less than nothing":                 {offer(paris, cpu(-1)), ErrMalformed},
		"nobody offers more than can be counted":          {offer(paris, cpu(quantity.Limit+1)), ErrMalformed},
		"the largest countable offer is taken":            {offer(paris, cpu(quantity.Limit)), nil},
		"a cluster's own pods use no less than nothing":   {negativeAllocated, ErrMalformed},
		"usage below zero would make capacity of nothing": {offerUsing(paris, cpu(1), map[string]quantity.Amounts{"x": cpu(-1)}), ErrMalformed},
		"usage whose sum cannot be counted is refused": {
			offerUsing(paris, cpu(1), map[string]quantity.Amounts{"x": cpu(quantity.Limit / 2), "y": cpu(quantity.Limit / 2)}), ErrMalformed,
		},
		"usage of a placement that is not in the book is taken": {offerUsing(paris, cpu(1), map[string]quantity.Amounts{"x": cpu(7)}), nil},

		"a reservation has a name":                        {empty(func(r *Reserve) { r.Name = "" }), ErrMalformed},
		"a reservation has a requester":                   {empty(func(r *Reserve) { r.Requester = "" }), ErrMalformed},
		"a reservation has a key":                         {empty(func(r *Reserve) { r.Key = "" }), ErrMalformed},
		"a reservation has amounts":                       {empty(func(r *Reserve) { r.Amounts = cpu(0) }), ErrMalformed},
		"a reservation of less than nothing is malformed": {reserve("new", paris, cpu(-1)), ErrMalformed},
		"a shortfall beside an amount is malformed":       {reserve("new", paris, quantity.Amounts{gpu: -1, "cpu": 1}), ErrMalformed},
		"a provider is in the book":                       {reserve("new", "madrid", cpu(1)), ErrUnknown},
		"what is left can be reserved to the last":        {reserve("new", paris, cpu(3000)), nil},
		"one millicore more than is left is overbooked":   {reserve("new", paris, cpu(3001)), ErrOverbooked},
		"the largest amount is overbooked, not wrapped":   {reserve("new", paris, cpu(quantity.Limit)), ErrOverbooked},
		"an uncountable amount is malformed":              {reserve("new", paris, cpu(math.MaxInt64)), ErrMalformed},
		"a resource that is not offered is overbooked":    {reserve("new", paris, quantity.Amounts{gpu: 1}), ErrOverbooked},
		"a name names one reservation":                    {withKey(reserve("live", paris, cpu(1)), "new"), ErrTaken},
		"a name stays taken until it is forgotten":        {withKey(reserve("over", paris, cpu(1)), "new"), ErrTaken},
		"a key names one reservation":                     {withKey(reserve("new", paris, cpu(1)), "key-live"), ErrTaken},
		"a key stays taken after the end":                 {withKey(reserve("new", paris, cpu(1)), "key-over"), ErrTaken},
		"a shut key meets its tombstone":                  {withKey(reserve("new", paris, cpu(1)), "closed"), ErrTaken},
		"another requester's key is another key":          {reserveFor("athens", "new", paris, cpu(1)), nil},
		"another requester may use a key that is shut":    {withKey(reserveFor("athens", "new", paris, cpu(1)), "closed"), nil},
		"name and key of a forgotten reservation are free": {
			reserve("forgotten", paris, cpu(1)), nil,
		},

		"a key is shut before it was ever used":   {shut(rome, "new"), nil},
		"a key with a reservation cannot be shut": {shut(rome, "key-live"), ErrTaken},
		"a key is shut once":                      {shut(rome, "closed"), ErrTaken},

		"an unknown reservation cannot move":                {move("none", berlin), ErrUnknown},
		"a placement that stands is not moved":              {move("live", berlin), ErrTaken},
		"a reservation that moved stands again":             {move("moved", paris), ErrTaken},
		"a reservation moves to a provider in the book":     {move("withdrawn", "madrid"), ErrUnknown},
		"a reservation moves to a provider that has enough": {move("withdrawn", berlin), nil},
		"a move back to the same provider needs room beside the old hold": {
			move("withdrawn", paris), nil,
		},
		"a reservation moves to a provider without agent": {move("withdrawn", oslo), nil},
		"a reservation that ended does not move":          {move("ending", berlin), ErrOver},

		"an unknown reservation is not acknowledged":   {acknowledge("none", 1), ErrUnknown},
		"there is no placement zero":                   {acknowledge("live", 0), ErrUnknown},
		"there is no placement below zero":             {acknowledge("live", math.MinInt32), ErrUnknown},
		"a placement to come is not acknowledged":      {acknowledge("live", 2), ErrUnknown},
		"a placement that stands is acknowledged":      {acknowledge("live", 1), nil},
		"a withdrawn placement is not acknowledged":    {acknowledge("withdrawn", 1), ErrOver},
		"a placement that was replaced is not":         {acknowledge("moved", 1), ErrOver},
		"the placement that replaced it is":            {acknowledge("moved", 2), nil},
		"nothing is acknowledged after the end":        {acknowledge("ending", 1), ErrOver},
		"a node of a standing placement may be ready":  {nodeReady("live", 1, true), nil},
		"a node of a withdrawn placement is not heard": {nodeReady("withdrawn", 1, true), ErrOver},
		"a node of an unknown placement is not heard":  {nodeReady("live", 9, true), ErrUnknown},

		"a placement that stands is withdrawn":                {withdraw("live", 1), nil},
		"a placement is withdrawn once":                       {withdraw("withdrawn", 1), ErrOver},
		"a placement is withdrawn with a reason":              {Event{Change: &Withdraw{PlacementRef: refTo("live", 1)}}, ErrMalformed},
		"nothing is withdrawn after the end":                  {withdraw("ending", 1), ErrOver},
		"an unknown placement is not withdrawn":               {withdraw("live", 2), ErrUnknown},
		"the provider is not gone while the placement stands": {providerGone("live", 1), ErrTaken},
		"the consumer is not gone while the placement stands": {consumerGone("live", 1), ErrTaken},
		"the provider of a withdrawn placement may be gone":   {providerGone("withdrawn", 1), nil},
		"the provider of an ended reservation may be gone":    {providerGone("ending", 1), nil},
		"the consumer of an ended reservation may be gone":    {consumerGone("ending", 1), nil},
		"gone may be said again":                              {consumerGone("over", 1), nil},
		"an unknown placement is not gone":                    {providerGone("ending", 2), ErrUnknown},
		"a placement of a forgotten reservation is not gone":  {providerGone("forgotten", 1), ErrUnknown},

		"what its consumer alone has to leave is closed": {closeEvent("consumer's"), nil},
		"what its provider has to leave is not closed":   {closeEvent("ending"), ErrTaken},
		"what stands is not closed":                      {closeEvent("live"), ErrTaken},
		"what is over need not be closed":                {closeEvent("over"), ErrTaken},
		"an unknown reservation is not closed":           {closeEvent("none"), ErrUnknown},

		"a reservation that stands ends":            {end("live", EndReleased), nil},
		"a reservation without placement ends":      {end("withdrawn", EndFailed), nil},
		"a reservation ends once":                   {end("ending", EndExpired), ErrOver},
		"a reservation ends with a reason":          {end("live", ""), ErrMalformed},
		"an unknown reservation does not end":       {end("none", EndReleased), ErrUnknown},
		"a reservation that stands is renewed":      {renew("live", timeOf(99)), nil},
		"a reservation that ended is not renewed":   {renew("ending", timeOf(99)), ErrOver},
		"an unknown reservation is not renewed":     {renew("none", timeOf(99)), ErrUnknown},
		"a reservation that is over is forgotten":   {forget("over"), nil},
		"a reservation named twice is forgotten":    {forget("over", "over"), nil},
		"a reservation that stands is remembered":   {forget("live"), ErrTaken},
		"a reservation that is ending is, too":      {forget("ending"), ErrTaken},
		"one that is not over keeps its companions": {forget("over", "ending"), ErrTaken},
		"an unknown reservation is not forgotten":   {forget("over", "none"), ErrUnknown},
		"a shut key is forgotten":                   {Event{Change: &Forget{Keys: []CloseKey{{rome, "closed"}}}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, before...)
			was, position := b.encodeSnapshot(), b.Position()

			_, got := b.Check(&tc.event)
			if !errors.Is(got, tc.want) {
				t.Fatalf("Check: %v, want %v", got, tc.want)
			}
			if b.encodeSnapshot() != was {
				t.Error("Check changed the book")
			}
			applied := b.Apply(position+1, &tc.event)
			if !errors.Is(applied, tc.want) {
				t.Fatalf("Apply: %v, want what Check said: %v", applied, got)
			}
			if applied != nil && b.encodeSnapshot() != was {
				t.Error("an event that was refused changed the book")
			}
			if applied == nil && b.Position() != position+1 {
				t.Errorf("position %d after the event, want %d", b.Position(), position+1)
			}
		})
	}
}
