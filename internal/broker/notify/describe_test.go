package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var start = time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC)

func cores(n int64) quantity.Amounts { return quantity.Amounts{corev1.ResourceCPU: n * 1000} }

func offer(clusterID string) ledger.Change {
	return &ledger.Offer{ClusterID: clusterID, Agent: true, Capacity: cores(8), Allocatable: cores(8)}
}

func request(name string, n int64) ledger.Reserve {
	return ledger.Reserve{Name: name, Request: ledger.Request{Requester: "rome", Key: name, Amounts: cores(n)}}
}

func reserve(name, provider string, n int64) ledger.Change {
	out := request(name, n)
	out.Provider, out.Until = provider, start.Add(time.Hour)
	return &out
}

func enqueue(name string, n int64) ledger.Change {
	out := request(name, n)
	return &ledger.Enqueue{Request: &out, Until: start.Add(time.Hour)}
}

func first(name string) ledger.PlacementRef { return ledger.PlacementRef{Name: name, Placement: 1} }

// serving returns the changes after which a placement serves.
func serving(name string) []ledger.Change {
	return []ledger.Change{&ledger.Acknowledge{PlacementRef: first(name)}, &ledger.NodeReady{PlacementRef: first(name), Ready: true}}
}

// three returns the changes with which three clusters join. Every case begins with them.
func three() []ledger.Change { return []ledger.Change{offer("rome"), offer("paris"), offer("oslo")} }

// readAll feeds changes to a book, one per minute. It returns the events of all changes after the first skip changes.
func readAll(t *testing.T, skip int, changes []ledger.Change) []notify.Event {
	t.Helper()
	book := notify.NewBook(ledger.New(), false)
	var out []notify.Event
	for i, change := range changes {
		data, err := ledger.Event{At: start.Add(time.Duration(i) * time.Minute), Change: change}.MarshalJSON()
		runtest.Check(t, err)
		events, err := book.Read(&journal.Entry{Position: uint64(i + 1), Kind: "record", Data: data})
		runtest.Check(t, err)
		for n, e := range events {
			if e.Index != n || e.Data.Position != uint64(i+1) || e.Data.Actor == "" || e.Data.Kind == "" || e.Data.Message == "" || e.Subject == "" {
				t.Errorf("event %d of record %d is incomplete: %+v", n, i+1, e)
			}
		}
		if i >= skip {
			out = append(out, events...)
		}
	}
	return out
}

func TestRecordsMeanEvents(t *testing.T) {
	ends := start.Add(30 * time.Minute)
	active := append([]ledger.Change{reserve("res-a", "paris", 2)}, serving("res-a")...)
	cases := map[string]struct {
		before, changes []ledger.Change
		want            []string
	}{
		"a cluster joins, and offers again": {
			changes: []ledger.Change{offer("bern"), offer("bern")},
			want:    []string{"cluster.joined: cluster bern takes part"},
		},
		"a reservation is granted and ready": {
			changes: active,
			want: []string{
				"reservation.granted: res-a of rome is granted on paris",
				"reservation.active: res-a of rome is ready for use on paris",
			},
		},
		"a node is lost and comes back": {
			before:  active,
			changes: []ledger.Change{&ledger.NodeReady{PlacementRef: first("res-a")}, &ledger.NodeReady{PlacementRef: first("res-a"), Ready: true}},
			want: []string{
				"reservation.not-ready: res-a of rome cannot be used now: its node is not Ready",
				"reservation.active: res-a of rome is ready for use on paris",
			},
		},
		"a request waits and is granted": {
			changes: []ledger.Change{enqueue("res-a", 2), &ledger.Grant{Name: "res-a", Provider: "oslo", Until: start.Add(time.Hour)}},
			want: []string{
				"reservation.queued: res-a of rome waits for capacity",
				"reservation.granted: res-a of rome is granted on oslo",
			},
		},
		"a request waits in vain": {
			changes: []ledger.Change{enqueue("res-a", 2), &ledger.End{Name: "res-a", Reason: ledger.EndFailed, Message: "it waited for an hour"}},
			want: []string{
				"reservation.queued: res-a of rome waits for capacity",
				"reservation.failed: res-a of rome has failed: it waited for an hour",
				"reservation.ended: nothing is left of res-a of rome",
			},
		},
		"a provider refuses and another takes over": {
			before:  []ledger.Change{reserve("res-a", "paris", 2)},
			changes: []ledger.Change{&ledger.Withdraw{PlacementRef: first("res-a"), Reason: "no room", Refused: true}, &ledger.Move{Name: "res-a", Provider: "oslo"}},
			want:    []string{"reservation.moved: res-a of rome moves from paris to oslo (no room)"},
		},
		"a provider falls silent and is replaced": {
			before:  active,
			changes: []ledger.Change{&ledger.Silence{ClusterID: "paris", Since: start}, &ledger.Heal{Name: "res-a", Provider: "oslo"}, &ledger.Silence{ClusterID: "paris"}},
			want: []string{
				"cluster.silent: the agent of cluster paris has sent nothing since 2030-01-01T08:00:00Z",
				"reservation.moved: res-a of rome moves from paris to oslo",
				"cluster.back: the agent of cluster paris is back",
			},
		},
		"a displaced reservation waits again": {
			before: active,
			changes: []ledger.Change{
				&ledger.Withdraw{PlacementRef: first("res-a"), Reason: ledger.Recalled},
				&ledger.Enqueue{Name: "res-a", Until: ends},
				&ledger.Grant{Name: "res-a", Provider: "oslo", Until: start.Add(time.Hour)},
			},
			want: []string{
				"reservation.not-ready: res-a of rome cannot be used now: its node is not Ready",
				"reservation.queued: res-a of rome waits for capacity",
				"reservation.granted: res-a of rome is granted on oslo",
			},
		},
		"a provider recalls a reservation and changes its mind": {
			before: active,
			changes: []ledger.Change{
				&ledger.Recall{PlacementRef: first("res-a"), Ends: ends, Message: "rack 4 fails"},
				&ledger.Recall{PlacementRef: first("res-a")},
			},
			want: []string{
				"reservation.recall-notice: res-a of rome must leave paris by 2030-01-01T08:30:00Z: rack 4 fails (Recalled)",
				"reservation.notice-withdrawn: res-a of rome may stay on paris",
			},
		},
		"a reservation is idle, is used, and ends because nobody uses it": {
			before: active,
			changes: []ledger.Change{
				&ledger.Idle{PlacementRef: first("res-a"), Since: start},
				&ledger.Idle{PlacementRef: first("res-a"), Since: start, Ends: ends},
				&ledger.Idle{PlacementRef: first("res-a")},
				&ledger.Idle{PlacementRef: first("res-a"), Since: start, Ends: ends},
				&ledger.End{Name: "res-a", Reason: ledger.EndIdle, Message: "nobody used it"},
			},
			want: []string{
				"reservation.idle: nobody uses res-a of rome since 2030-01-01T08:00:00Z (Idle)",
				"reservation.idle: nobody uses res-a of rome since 2030-01-01T08:00:00Z; it is released at 2030-01-01T08:30:00Z unless a pod comes (Idle)",
				"reservation.notice-withdrawn: res-a of rome may stay on paris",
				"reservation.idle: nobody uses res-a of rome since 2030-01-01T08:00:00Z; it is released at 2030-01-01T08:30:00Z unless a pod comes (Idle)",
				"reservation.ending: res-a of rome ends: nobody used it (Idle)",
			},
		},
		"a reservation makes room for a higher priority, which finds room elsewhere": {
			before: append(active, enqueue("res-b", 8)),
			changes: []ledger.Change{
				&ledger.Preempt{Name: "res-b", Priority: 7, Provider: "paris", Ends: ends, Victims: []ledger.Victim{{PlacementRef: first("res-a")}}},
				&ledger.Grant{Name: "res-b", Provider: "oslo", Until: start.Add(time.Hour)},
			},
			want: []string{
				"reservation.preemption-notice: res-a of rome must leave paris by 2030-01-01T08:30:00Z: res-b has a higher priority (Preempted)",
				"reservation.granted: res-b of rome is granted on oslo",
				"reservation.notice-withdrawn: res-a of rome may stay on paris",
			},
		},
		"amounts change when the provider agrees": {
			before: active,
			changes: []ledger.Change{
				&ledger.Edit{Name: "res-a", Generation: 1, Until: start.Add(time.Hour), Amounts: cores(3), Fallback: "old"},
				&ledger.Settle{PlacementRef: first("res-a"), Generation: 1},
			},
			want: []string{"reservation.changed: res-a of rome has changed"},
		},
		"a provider refuses other amounts": {
			before: active,
			changes: []ledger.Change{
				&ledger.Edit{Name: "res-a", Generation: 1, Until: start.Add(time.Hour), Amounts: cores(3), Fallback: "old"},
				&ledger.Settle{PlacementRef: first("res-a"), Generation: 1, Refused: "no room"},
			},
			want: []string{"reservation.change-refused: the change of res-a of rome is refused: no room"},
		},
		"a renewed lease is no news": {
			before:  active,
			changes: []ledger.Change{&ledger.Renew{Name: "res-a", Until: start.Add(2 * time.Hour)}},
		},
		"a reservation ends": {
			before: active,
			changes: []ledger.Change{
				&ledger.End{Name: "res-a", Reason: ledger.EndExpired, Message: "its time is over"},
				&ledger.ConsumerGone{PlacementRef: first("res-a")}, &ledger.ProviderGone{PlacementRef: first("res-a")}, &ledger.Forget{Names: []string{"res-a"}},
			},
			want: []string{
				"reservation.ending: res-a of rome ends: its time is over (Expired)",
				"reservation.ended: nothing is left of res-a of rome (Expired)",
			},
		},
		"a lost cluster is removed with what waits for it": {
			before:  append(active, &ledger.End{Name: "res-a", Reason: ledger.EndReleased}, &ledger.ConsumerGone{PlacementRef: first("res-a")}),
			changes: []ledger.Change{&ledger.ForgetCluster{ClusterID: "paris"}},
			want: []string{
				"cluster.lost: cluster paris was removed because it is gone for good",
				"reservation.ended: nothing is left of res-a of rome (Released)",
			},
		},
		"the configuration changes": {
			changes: []ledger.Change{
				&ledger.Configure{Difference: json.RawMessage(`{"headroom":10,"deniedClusters":{"mallory":true},"generation":2}`)},
				&ledger.Configure{Difference: json.RawMessage(`{"generation":3}`)}, &ledger.Configure{},
			},
			want: []string{"config.changed: the BrokerConfig has changed: deniedClusters, headroom"},
		},
		"the journal is restored": {
			changes: []ledger.Change{&ledger.Lineage{ID: "one", Key: []byte("k")}, &ledger.Lineage{ID: "two", Seen: 602, By: "paris"}},
			want:    []string{"journal.restored: the journal was restored from an older state: position 602 was lost, as paris knows"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := append(three(), tc.before...)
			var got []string
			for _, e := range readAll(t, len(before), append(before, tc.changes...)) {
				line := fmt.Sprintf("%s: %s", e.Type, e.Data.Message)
				if reason := e.Data.Reason; reason != "" && !strings.Contains(line, "waited") && e.Type != notify.Ended || reason == string(ledger.EndExpired) || reason == string(ledger.EndReleased) {
					line += " (" + reason + ")"
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJournalsOwnRecordsMeanNothing(t *testing.T) {
	book := notify.NewBook(ledger.New(), false)
	for _, kind := range []string{"open", "checkpoint"} {
		if events, err := book.Read(&journal.Entry{Position: 1, Kind: kind, Data: []byte("{}")}); len(events) > 0 || err != nil {
			t.Errorf("%s: %v, %v", kind, events, err)
		}
	}
}

func TestMovedReservationNamesBothProviders(t *testing.T) {
	changes := append(three(), reserve("res-a", "paris", 2), &ledger.Withdraw{PlacementRef: first("res-a"), Reason: "no room", Refused: true}, &ledger.Move{Name: "res-a", Provider: "oslo"})
	events := readAll(t, 5, changes)
	want := []notify.Event{{Type: notify.Moved, Subject: "res-a", Data: notify.Data{
		Position: 6, Time: start.Add(5 * time.Minute), Kind: "move", Actor: "the broker", Message: "res-a of rome moves from paris to oslo",
		Reservation: "res-a", Requester: "rome", Phase: "Reserved", Provider: "oslo", Placement: 2, From: "paris", Reason: "no room", Until: start.Add(time.Hour),
	}}}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestChannelSelectsByPatternAndRequester(t *testing.T) {
	event := func(t notify.Type, requester string) *notify.Event {
		return &notify.Event{Type: t, Data: notify.Data{Requester: requester}}
	}
	cases := map[string]struct {
		channel notify.Channel
		event   *notify.Event
		want    bool
	}{
		"everything":                         {notify.Channel{Events: []string{"*"}}, event(notify.Active, "rome"), true},
		"a type":                             {notify.Channel{Events: []string{"reservation.active"}}, event(notify.Active, "rome"), true},
		"another type":                       {notify.Channel{Events: []string{"reservation.active"}}, event(notify.Ended, "rome"), false},
		"one of several patterns":            {notify.Channel{Events: []string{"cluster.*", "*.moved"}}, event(notify.Moved, "rome"), true},
		"no pattern":                         {notify.Channel{}, event(notify.Moved, "rome"), false},
		"the requester":                      {notify.Channel{Events: []string{"*"}, Requesters: []string{"rome"}}, event(notify.Moved, "rome"), true},
		"another requester":                  {notify.Channel{Events: []string{"*"}, Requesters: []string{"rome"}}, event(notify.Moved, "oslo"), false},
		"an event of no requester, for some": {notify.Channel{Events: []string{"*"}, Requesters: []string{"rome"}}, event(notify.ClusterSilent, ""), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.channel.Selects(tc.event); got != tc.want {
				t.Errorf("selected: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWrongChannelIsRefusedWithItsRemedy(t *testing.T) {
	cases := map[string]struct {
		pattern, url, want string
	}{
		"a good channel":            {"reservation.*", "https://bus.example/in?team=ml", ""},
		"a private address":         {"*", "https://10.0.0.7:8443/in", ""},
		"a pattern without a match": {"reservations.*", "https://bus.example", `events: "reservations.*" matches no event: write a type such as reservation.active, or a pattern`},
		"a broken pattern":          {"[", "https://bus.example", `events: "[" matches no event`},
		"an address without TLS":    {"*", "http://bus.example/in", `cloudEvents.url: "http://bus.example/in" must be an https:// address`},
		"an address with password":  {"*", "https://u:p@bus.example/in", "must be an https:// address without user name, password"},
		"no host":                   {"*", "https:///in", "must be an https:// address"},
		"this machine":              {"*", "https://127.0.0.1/in", "127.0.0.1 is a loopback address: the broker sends no events there"},
		"the metadata of a cloud":   {"*", "https://169.254.169.254/latest", "169.254.169.254 is a link-local address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := (&notify.Channel{Name: "bus", Events: []string{tc.pattern}, URL: tc.url}).Check()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if name == "this machine" && !errors.Is(err, notify.ErrAddressRefused) {
				t.Errorf("%v does not wrap ErrAddressRefused", err)
			}
		})
	}
}
