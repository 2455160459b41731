package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// provider returns the view of a placement whose consumer is peered and has no slice here yet.
func provider(change func(*ProviderView)) ProviderView {
	v := ProviderView{
		Consumer: "rome", Name: "res-a-1", Namespace: ours, Nonce: ours,
		Tenant: TenantView{ObjectView: ours, Ready: true, Signed: true},
	}
	change(&v)
	return v
}

func TestProviderMakesThePeering(t *testing.T) {
	answered := ProviderHandshake{Answered: true, SameKey: true}
	tests := map[string]struct {
		change func(*ProviderView)
		want   []Verb
	}{
		"the tenant namespace comes first": {
			change: func(v *ProviderView) { v.Namespace, v.Nonce, v.Tenant = ObjectView{}, ObjectView{}, TenantView{} },
			want:   []Verb{EnsureNamespace},
		},
		"then the nonce": {
			change: func(v *ProviderView) { v.Nonce, v.Tenant = ObjectView{}, TenantView{} }, want: []Verb{EnsureNonce},
		},
		"then the challenge": {
			change: func(v *ProviderView) { v.Tenant = TenantView{} }, want: []Verb{SendChallenge},
		},
		"an answer that is refused is asked for again": {
			change: func(v *ProviderView) { v.Tenant = TenantView{}; v.Handshake.Problem = "forged" }, want: []Verb{SendChallenge},
		},
		"an answer becomes the Tenant": {
			change: func(v *ProviderView) { v.Tenant = TenantView{}; v.Handshake.Answered = true }, want: []Verb{WriteTenant},
		},
		"Liqo signs": {
			change: func(v *ProviderView) { v.Tenant.Ready = false; v.Handshake = answered },
		},
		"a Tenant that nobody signs for is challenged again": {
			change: func(v *ProviderView) { v.Tenant.Ready = false }, want: []Verb{SendChallenge},
		},
		"the credentials follow": {
			change: func(v *ProviderView) { v.Handshake = answered }, want: []Verb{SendCredentials},
		},
		"a slice shows that they arrived": {
			change: func(v *ProviderView) { v.Handshake = answered; v.Slices = 1 }, want: []Verb{StopSending},
		},
		"a signature of an earlier nonce is renewed": {
			change: func(v *ProviderView) { v.Handshake = answered; v.Tenant.Signed = false }, want: []Verb{WriteTenant},
		},
		"a Tenant that a person made is not changed": {
			change: func(v *ProviderView) {
				v.Handshake = answered
				v.Tenant = TenantView{ObjectView: theirs, Ready: true}
			},
			want: []Verb{SendCredentials},
		},
		"another key replaces a Tenant that nobody uses": {
			change: func(v *ProviderView) { v.Handshake.Answered = true }, want: []Verb{DeleteTenant},
		},
		"another key does not replace a Tenant in use": {
			change: func(v *ProviderView) { v.Handshake.Answered, v.Slices = true, 1 },
		},
		"another key does not replace a person's Tenant": {
			change: func(v *ProviderView) {
				v.Handshake.Answered = true
				v.Tenant.ObjectView = theirs
			},
		},
		"a peered consumer is told nothing": {
			change: func(*ProviderView) {},
		},
		"a peered consumer that lost its identity gets it again": {
			change: func(v *ProviderView) { v.Handshake.Requested, v.Handshake.KnownKey, v.Slices = true, true, 1 },
			want:   []Verb{SendCredentials},
		},
		"a peered consumer with another key is challenged": {
			change: func(v *ProviderView) { v.Handshake.Requested = true }, want: []Verb{SendChallenge},
		},
		"a challenge needs the nonce": {
			change: func(v *ProviderView) { v.Handshake.Requested = true; v.Nonce = ObjectView{} }, want: []Verb{EnsureNonce},
		},
		"a peering that is going is waited for": {
			change: func(v *ProviderView) { v.Tenant.ObjectView = going; v.Handshake = answered },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForProvider(provider(test.change))
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Phase != agentv1alpha1.InstructionPeering || state.Gone || state.Done || state.Granted.True {
				t.Errorf("state: got %+v, want peering", state)
			}
			if state.Granted.Message == "" {
				t.Error("the state does not say what is awaited")
			}
		})
	}
}

func TestProviderShowsTheGrant(t *testing.T) {
	tests := map[string]struct {
		replica ReplicaView
		phase   agentv1alpha1.InstructionPhase
		granted bool
	}{
		"no slice":        {phase: agentv1alpha1.InstructionPeering},
		"a slice":         {replica: ReplicaView{Exists: true}, phase: agentv1alpha1.InstructionAwaitingNode},
		"a granted slice": {replica: ReplicaView{Exists: true, Granted: true}, phase: agentv1alpha1.InstructionActive, granted: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, state := ForProvider(provider(func(v *ProviderView) { v.Replica = test.replica }))
			if state.Phase != test.phase || state.Granted.True != test.granted {
				t.Errorf("got %+v, want phase %q, granted %v", state, test.phase, test.granted)
			}
		})
	}
}

func TestProviderSaysWhetherMoreIsGivenThanKept(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*ProviderView)
		want   bool
	}{
		"no more":               {func(*ProviderView) {}, false},
		"the slice grants more": {func(v *ProviderView) { v.Replica.Exceeds = true }, true},
		"the quota lets in more, whatever the slice says": {func(v *ProviderView) { v.QuotaExceeds = true }, true},
	} {
		if _, state := ForProvider(provider(tc.change)); state.Exceeds != tc.want {
			t.Errorf("%s: %v, want %v", name, state.Exceeds, tc.want)
		}
	}
}

func TestProviderConfirmsOnlyWhenNothingRuns(t *testing.T) {
	tests := map[string]struct {
		change     func(*ProviderView)
		want       []Verb
		gone, done bool
	}{
		"the slice is there":     {change: func(v *ProviderView) { v.Replica.Exists = true }},
		"the quota lets pods in": {change: func(v *ProviderView) { v.Quota = true }},
		"pods run":               {change: func(v *ProviderView) { v.ShadowPods = 1 }},
		"pods run and all are told to unpeer": {
			change: func(v *ProviderView) { v.ShadowPods, v.Unpeer = 1, true },
		},
		"nothing runs":                 {change: func(*ProviderView) {}, want: []Verb{ForgetConsumer}, gone: true},
		"others of the consumer stand": {change: func(v *ProviderView) { v.Siblings = 1 }, gone: true},
		"others take the peering down later": {
			change: func(v *ProviderView) { v.Siblings, v.Unpeer = 1, true }, gone: true, done: true,
		},
		"the last one takes the Tenant down": {
			change: func(v *ProviderView) { v.Unpeer = true }, want: []Verb{ForgetConsumer, DeleteTenant}, gone: true,
		},
		"not before the consumer has removed what it replicated": {
			change: func(v *ProviderView) { v.Unpeer, v.Replicated = true, 1 }, want: []Verb{ForgetConsumer}, gone: true,
		},
		"the Tenant is waited for": {
			change: func(v *ProviderView) { v.Unpeer, v.Tenant.ObjectView = true, going }, want: []Verb{ForgetConsumer}, gone: true,
		},
		"then the namespace goes, with the Secrets in it": {
			change: func(v *ProviderView) { v.Unpeer, v.Tenant = true, TenantView{}; v.Home.Namespace = ours },
			want:   []Verb{ForgetConsumer, DeleteNamespace}, gone: true,
		},
		"in a person's namespace the Secrets go alone": {
			change: func(v *ProviderView) { v.Unpeer, v.Tenant, v.Namespace = true, TenantView{}, theirs },
			want:   []Verb{ForgetConsumer, DeleteSecrets}, gone: true,
		},
		"a person's Tenant stays": {
			change: func(v *ProviderView) { v.Unpeer, v.Tenant.ObjectView, v.Home.Roots = true, theirs, 1 },
			want:   []Verb{ForgetConsumer}, gone: true, done: true,
		},
		"nothing is left": {
			change: func(v *ProviderView) {
				v.Unpeer, v.Tenant, v.Namespace, v.Nonce = true, TenantView{}, ObjectView{}, ObjectView{}
			},
			want: []Verb{ForgetConsumer}, gone: true, done: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForProvider(provider(func(v *ProviderView) { v.Release = true; test.change(v) }))
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Gone != test.gone || state.Done != test.done {
				t.Errorf("gone, done: got %v, %v, want %v, %v", state.Gone, state.Done, test.gone, test.done)
			}
		})
	}
}
