package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sight is what is derived from a reservation and one of its placements.
type sight struct {
	Phase       Phase
	Placement   PlacementPhase
	Instruction InstructionState
}

func (b book) sightOf(name string, placement int32) sight {
	r := b.Reservation(name)
	p := r.Placement(placement)
	return sight{r.Phase(), r.PlacementPhase(p), r.Instruction(p)}
}

// TestPhases checks the phases of placement 1 of r after the events of each case. Both sides
// have an agent unless the case name says otherwise.
func TestPhases(t *testing.T) {
	withAgents := []Event{offer(rome, nil), offer(paris, cpu(8000)), offer(berlin, cpu(8000)), reserve("r", paris, cpu(1000))}
	withoutProviderAgent := []Event{offer(rome, nil), handWritten(oslo, cpu(8000)), reserve("r", oslo, cpu(1000))}
	withoutRequesterAgent := []Event{offer(paris, cpu(8000)), reserve("r", paris, cpu(1000))}
	withoutAnyAgent := []Event{handWritten(oslo, cpu(8000)), reserve("r", oslo, cpu(1000))}

	cases := map[string]struct {
		before []Event
		events []Event
		want   sight
	}{
		"a grant is reserved and assigned": {
			withAgents, nil, sight{Reserved, Assigned, Hold},
		},
		"an acknowledgement alone does not make it active": {
			withAgents, []Event{acknowledge("r", 1)}, sight{Reserved, Acknowledged, Hold},
		},
		"a ready node alone does not make it active": {
			withAgents, []Event{nodeReady("r", 1, true)}, sight{Reserved, Assigned, Hold},
		},
		"acknowledgement, then ready node make it active": {
			withAgents, []Event{acknowledge("r", 1), nodeReady("r", 1, true)}, sight{Active, Ready, Hold},
		},
		"ready node, then acknowledgement make it active too": {
			withAgents, []Event{nodeReady("r", 1, true), acknowledge("r", 1)}, sight{Active, Ready, Hold},
		},
		"a node that is lost makes it reserved again": {
			withAgents, []Event{acknowledge("r", 1), nodeReady("r", 1, true), nodeReady("r", 1, false)},
			sight{Reserved, Acknowledged, Hold},
		},
		"a renewal changes no phase": {
			withAgents, []Event{acknowledge("r", 1), nodeReady("r", 1, true), renew("r", timeOf(99))}, sight{Active, Ready, Hold},
		},
		"a withdrawn placement is taken down while its reservation stands": {
			withAgents, []Event{acknowledge("r", 1), nodeReady("r", 1, true), withdraw("r", 1)},
			sight{Reserved, Withdrawing, Release},
		},
		"a withdrawn placement that only its provider left is still to be released": {
			withAgents, []Event{withdraw("r", 1), providerGone("r", 1)}, sight{Reserved, Gone, Release},
		},
		"a withdrawn placement that only its consumer left is still withdrawing": {
			withAgents, []Event{withdraw("r", 1), consumerGone("r", 1)}, sight{Reserved, Withdrawing, Release},
		},
		"a withdrawn placement that both sides left has ended while its reservation stands": {
			withAgents, []Event{withdraw("r", 1), providerGone("r", 1), consumerGone("r", 1)}, sight{Reserved, Gone, Ended},
		},
		"the newest placement decides the phase, the old one is taken down": {
			withAgents, []Event{withdraw("r", 1), move("r", berlin), acknowledge("r", 2), nodeReady("r", 2, true)},
			sight{Active, Withdrawing, Release},
		},
		"an end starts the release": {
			withAgents, []Event{acknowledge("r", 1), nodeReady("r", 1, true), end("r", EndReleased)},
			sight{Releasing, Withdrawing, Release},
		},
		"a failure is a release first": {
			withAgents, []Event{end("r", EndFailed)}, sight{Releasing, Withdrawing, Release},
		},
		"a release waits for the consumer": {
			withAgents, []Event{end("r", EndExpired), providerGone("r", 1)}, sight{Releasing, Gone, Release},
		},
		"a release waits for the provider": {
			withAgents, []Event{end("r", EndExpired), consumerGone("r", 1)}, sight{Releasing, Withdrawing, Release},
		},
		"an expired reservation that both sides left is released": {
			withAgents, []Event{end("r", EndExpired), consumerGone("r", 1), providerGone("r", 1)}, sight{Released, Gone, Ended},
		},
		"a failed reservation that both sides left has failed": {
			withAgents, []Event{end("r", EndFailed), providerGone("r", 1), consumerGone("r", 1)}, sight{Failed, Gone, Ended},
		},
		"a release waits for every placement, not for the newest alone": {
			withAgents, []Event{withdraw("r", 1), move("r", berlin), end("r", EndReleased), providerGone("r", 2), consumerGone("r", 2)},
			sight{Releasing, Withdrawing, Release},
		},
		"a provider without agent holds without being asked": {
			withoutProviderAgent, nil, sight{Reserved, Assigned, Hold},
		},
		"a provider without agent is gone with the withdrawal": {
			withoutProviderAgent, []Event{withdraw("r", 1)}, sight{Reserved, Gone, Release},
		},
		"a provider without agent is gone with the end, the consumer is waited for": {
			withoutProviderAgent, []Event{end("r", EndReleased)}, sight{Releasing, Gone, Release},
		},
		"a requester without agent has nothing to take down, the provider is waited for": {
			withoutRequesterAgent, []Event{end("r", EndReleased)}, sight{Releasing, Withdrawing, Release},
		},
		"a requester without agent is released by the provider's word": {
			withoutRequesterAgent, []Event{end("r", EndReleased), providerGone("r", 1)}, sight{Released, Gone, Ended},
		},
		"without any agent the end is the release": {
			withoutAnyAgent, []Event{end("r", EndExpired)}, sight{Released, Gone, Ended},
		},
		"without any agent a failure has failed at once": {
			withoutAnyAgent, []Event{end("r", EndFailed)}, sight{Failed, Gone, Ended},
		},
		"a provider whose agent enrols while it holds is waited for": {
			withoutAnyAgent, []Event{offer(oslo, cpu(8000)), end("r", EndReleased)}, sight{Releasing, Withdrawing, Release},
		},
		"a requester whose agent enrols while it holds is waited for": {
			withoutRequesterAgent, []Event{offer(rome, nil), end("r", EndReleased), providerGone("r", 1)},
			sight{Releasing, Gone, Release},
		},
		"a requester whose agent enrols after the end never had anything to take down": {
			withoutRequesterAgent, []Event{end("r", EndReleased), offer(rome, nil), providerGone("r", 1)},
			sight{Released, Gone, Ended},
		},
		"a released reservation stays released when both agents enrol": {
			withoutAnyAgent, []Event{end("r", EndReleased), offer(rome, nil), offer(oslo, cpu(8000))}, sight{Released, Gone, Ended},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, tc.before...)
			b.applyAll(tc.events...)
			if diff := cmp.Diff(tc.want, b.sightOf("r", 1)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if over := tc.want.Phase == Released || tc.want.Phase == Failed; b.Reservation("r").Over() != over {
				t.Errorf("over: %t, want %t", !over, over)
			}
		})
	}
}
