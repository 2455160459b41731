package liqo

import (
	"errors"
	"testing"
)

// plainVerifier takes the envelope for its payload, signed by signer.
func plainVerifier(signer string) Verifier {
	return func(envelope []byte) (string, []byte, error) {
		if len(envelope) == 0 {
			return "", nil, errors.New("empty envelope")
		}
		return signer, envelope, nil
	}
}

func TestMailboxKeepsTheNewestOfEachStep(t *testing.T) {
	box := newMailbox("rome", plainVerifier("paris"))
	pair := Pair{Consumer: "rome", Provider: "paris"}
	challenge := func(epoch string) []byte {
		m := Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: epoch, Step: StepChallenge}
		payload, _, err := encode(&m, Challenge{TenantNamespace: "ns"})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	for _, epoch := range []string{"one", "two", "two"} {
		if err := box.deliver(t.Context(), "paris", challenge(epoch)); err != nil {
			t.Fatal(err)
		}
	}
	got := box.get(pair, StepChallenge)
	if got == nil || got.Epoch != "two" || got.count != 3 {
		t.Errorf("got %+v, want the third delivery, of epoch two", got)
	}
	if other := box.get(pair, StepCredentials); other != nil {
		t.Errorf("got %+v, want no credentials", other)
	}
	if n := len(box.consumer); n != 3 {
		t.Errorf("the consumer's controller was woken %d times, want 3", n)
	}
	box.forget(pair, handshakeSteps)
	if got := box.get(pair, StepChallenge); got != nil {
		t.Errorf("got %+v after it was forgotten", got)
	}
}

func TestMailboxRefusesWhatItsSenderMayNotSay(t *testing.T) {
	m := Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: "e", Step: StepChallenge}
	payload, _, err := encode(&m, Challenge{})
	if err != nil {
		t.Fatal(err)
	}
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
			box := newMailbox("rome", plainVerifier(test.signer))
			if err := box.deliver(t.Context(), test.from, test.envelope); err == nil {
				t.Error("it was taken")
			}
			if got := box.get(m.pair(), StepChallenge); got != nil || len(box.consumer) > 0 {
				t.Errorf("got %+v and %d wakes, want neither", got, len(box.consumer))
			}
		})
	}
}
