package handshake

import (
	"errors"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// plainVerifier accepts the envelope as the payload, signed by signer.
func plainVerifier(signer string) Verifier {
	return func(envelope []byte) (string, []byte, error) {
		if len(envelope) == 0 {
			return "", nil, errors.New("empty envelope")
		}
		return signer, envelope, nil
	}
}

func TestMailboxKeepsTheNewestOfEachStep(t *testing.T) {
	box := NewMailbox("rome", plainVerifier("paris"))
	pair := Pair{Consumer: "rome", Provider: "paris"}
	challenge := func(epoch string) []byte {
		m := Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: epoch, Step: StepChallenge}
		payload, _, err := Encode(&m, Challenge{TenantNamespace: "ns"})
		runtest.Check(t, err)
		return payload
	}
	for _, epoch := range []string{"one", "two", "two"} {
		runtest.Check(t, box.Deliver(t.Context(), "paris", challenge(epoch)))
	}
	got := box.Get(pair, StepChallenge)
	if got == nil || got.Epoch != "two" || got.Count != 3 {
		t.Errorf("got %+v, want the third delivery, of epoch two", got)
	}
	if other := box.Get(pair, StepCredentials); other != nil {
		t.Errorf("got %+v, want no credentials", other)
	}
	if n := len(box.consumer); n != 3 {
		t.Errorf("the consumer's controller was woken %d times, want 3", n)
	}
	box.Forget(pair, HandshakeSteps)
	if got := box.Get(pair, StepChallenge); got != nil {
		t.Errorf("got %+v after it was forgotten", got)
	}
}

func TestMailboxRefusesWhatItsSenderMayNotSay(t *testing.T) {
	m := Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: "e", Step: StepChallenge}
	payload, _, err := Encode(&m, Challenge{})
	runtest.Check(t, err)
	tests := map[string]struct {
		signer, from string
		envelope     []byte
	}{
		"the broker names another sender than the signer": {signer: "paris", from: "berlin", envelope: payload},
		"another cluster signs the provider's step":       {signer: "berlin", from: "berlin", envelope: payload},
		"an envelope that does not verify":                {signer: "paris", from: "paris"},
		"a payload that is no message":                    {signer: "paris", from: "paris", envelope: []byte("{")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			box := NewMailbox("rome", plainVerifier(test.signer))
			if err := box.Deliver(t.Context(), test.from, test.envelope); err == nil {
				t.Error("it was taken")
			}
			if got := box.Get(m.clusterPair(), StepChallenge); got != nil || len(box.consumer) > 0 {
				t.Errorf("got %+v and %d wakes, want neither", got, len(box.consumer))
			}
		})
	}
}

// The mailbox drops messages for an earlier epoch, and messages that are older than the one it has.
func TestMailboxDropsOutdatedNetworkMessages(t *testing.T) {
	pair := Pair{Consumer: "rome", Provider: "paris"}
	type news struct {
		epoch, heard string
		at           int64
	}
	tests := map[string]struct {
		come []news
		// want is the message that is kept, and lastEpoch the epoch to answer.
		want      news
		lastEpoch string
	}{
		"the latest":                                 {come: []news{{"a", "self", 1}, {"a", "self", 2}}, want: news{"a", "self", 2}, lastEpoch: "a"},
		"the same once more":                         {come: []news{{"a", "self", 2}, {"a", "self", 2}}, want: news{"a", "self", 2}, lastEpoch: "a"},
		"an earlier one is not used":                 {come: []news{{"a", "self", 2}, {"a", "self", 1}}, want: news{"a", "self", 2}, lastEpoch: "a"},
		"nor one from before this agent started":     {come: []news{{"a", "self", 2}, {"a", "before", 3}}, want: news{"a", "self", 2}, lastEpoch: "a"},
		"nor an earlier one after such a one":        {come: []news{{"a", "self", 2}, {"z", "before", 0}, {"a", "self", 1}}, want: news{"a", "self", 2}, lastEpoch: "a"},
		"nor of a peer that has started anew since":  {come: []news{{"b", "self", 3}, {"a", "self", 2}}, want: news{"b", "self", 3}, lastEpoch: "a"},
		"a peer that started anew is to be answered": {come: []news{{"a", "self", 2}, {"b", "", 3}}, want: news{"a", "self", 2}, lastEpoch: "b"},
		"and then heard":                             {come: []news{{"a", "self", 2}, {"b", "", 3}, {"b", "self", 4}}, want: news{"b", "self", 4}, lastEpoch: "b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			box := NewMailbox("rome", plainVerifier("paris"))
			box.epoch = "self"
			for _, n := range test.come {
				payload, _, err := Encode(&Message{
					Consumer: "rome", Provider: "paris", Placement: "res-a-1", Step: StepProviderNetwork, Epoch: n.epoch, Heard: n.heard, At: n.at,
				}, struct{}{})
				if err == nil {
					err = box.Deliver(t.Context(), "paris", payload)
				}
				runtest.Check(t, err)
			}
			got := box.Get(pair, StepProviderNetwork)
			if (news{got.Epoch, got.Heard, got.At}) != test.want || got.LastEpoch != test.lastEpoch || got.Count != len(test.come) {
				t.Errorf("got %+v, want %+v, and to answer %q", got, test.want, test.lastEpoch)
			}
		})
	}
}
