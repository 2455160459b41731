package broker

import (
	"fmt"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// anyUser returns the name that a cluster reports with a call, often none.
func anyUser(c choose) string { return oneOf(c, "", "", "alice", "zoë <zoe@example.com>", `CORP\bob`) }

// recordedAs returns how the broker records a user.
func recordedAs(cluster, user string) string {
	if user == "" {
		return ""
	}
	return cluster + ":" + user
}

// namedRightly checks that a reservation names who asked for it, changed it last and ended it.
func (o *oracle) namedRightly(known *told, r *ledger.Reservation, why cause) error {
	var changed, ended string
	if r.History != nil {
		changed, ended = string(ledger.ActorOf(r.ChangedBy)), string(ledger.ActorOf(r.EndedBy))
	}
	if want := recordedAs(known.requester, known.request.Actor); string(ledger.ActorOf(r.By)) != want {
		return fmt.Errorf("reservation %s was asked for by %q, want %q", r.Name, ledger.ActorOf(r.By), want)
	}
	if want := recordedAs(known.requester, known.changedBy); changed != want {
		return fmt.Errorf("reservation %s was changed by %q, want %q", r.Name, changed, want)
	}
	if r.EndReason == known.ended {
		return nil
	}
	want := map[ledger.EndReason][]string{
		ledger.EndExpired: {"deadlines"}, ledger.EndIdle: {"deadlines"}, ledger.EndFailed: {"placing", "queue"}, ledger.EndPreempted: {"placing"}, ledger.EndReleased: {":"},
	}[r.EndReason]
	if why.released == r.Name {
		want = append(want, recordedAs(known.requester, why.by))
	}
	if !slices.Contains(want, ended) {
		return fmt.Errorf("reservation %s was ended (%s) by %q, want one of %q", r.Name, r.EndReason, ended, want)
	}
	return nil
}
