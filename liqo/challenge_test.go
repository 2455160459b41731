package liqo

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
)

// A provider that requests a signature over something else gets no message at all, and the
// status names its challenge as the problem. A working identity keeps working.
func TestOtherChallengesAreNotAnswered(t *testing.T) {
	for name, nonce := range map[string][]byte{
		"a sentence": []byte("I, rome, owe the holder of this a thousand cores"),
		"the text of a TLS 1.3 client's CertificateVerify": []byte(strings.Repeat(" ", 64) + "TLS 1.3, client CertificateVerify\x00" + strings.Repeat("h", 32)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.sites["paris"].silent = true
				w.reserve("rome", "paris", "res-a")
				w.run(time.Second)
				w.challenge("rome", "paris", "res-a-1", nonce)
				w.run(3 * time.Second)
				if slices.ContainsFunc(w.newest()["paris"], isAnswer) {
					t.Error("the challenge was answered")
				}
				state := w.stateOf("rome", "res-a")
				if state.Peered.Reason != "HandshakeRefused" || state.NodeReady.Reason != "HandshakeRefused" {
					t.Errorf("got %+v and %+v, want both to say that the handshake is refused", state.Peered, state.NodeReady)
				}
				w.sites["paris"].silent = false
				w.until("an honest challenge is answered", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				w.sites["paris"].silent = true
				before := w.answer("paris")
				w.challenge("rome", "paris", "res-a-1", nonce)
				w.run(3 * time.Second)
				state = w.stateOf("rome", "res-a")
				if w.answer("paris") != before || !state.Peered.True || !state.NodeReady.True || state.Health.Reason != "HandshakeRefused" {
					t.Errorf("got state %+v, want no other answer, a node, and what was refused", state)
				}
			})
		})
	}
}

// A challenge that cannot be decoded is reported as refused, and does not make Consume fail.
func TestInvalidChallengeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites["paris"].silent = true
		w.reserve("rome", "paris", "res-a")
		w.run(time.Second)
		m := handshake.Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: "e", Step: handshake.StepChallenge}
		payload, _, err := handshake.Encode(&m, "no challenge")
		w.check(err)
		w.check(w.sites["rome"].peering.Deliver(t.Context(), "paris", append([]byte("paris\n"), payload...)))
		if state := w.stateOf("rome", "res-a"); state.Peered.Reason != "HandshakeRefused" {
			t.Errorf("got %+v", state.Peered)
		}
	})
}
