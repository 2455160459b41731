package plan

import "testing"

func TestHandshakeStepFollowsWhatTheConsumerHas(t *testing.T) {
	tests := map[string]struct {
		change func(*ConsumerView)
		want   HandshakeStep
	}{
		"nothing yet": {func(v *ConsumerView) { v.Identity = IdentityView{} }, AwaitChallenge},
		"a challenge": {func(v *ConsumerView) { v.Identity, v.Handshake.Challenged = IdentityView{}, true }, AwaitCredentials},
		"credentials": {func(v *ConsumerView) {
			v.Identity, v.Handshake = IdentityView{}, ConsumerHandshake{Challenged: true, Credentials: true}
		}, AwaitIdentity},
		"an identity that Liqo does not use yet": {func(v *ConsumerView) { v.Identity.Ready = false }, AwaitIdentity},
		"an identity for an earlier key":         {func(v *ConsumerView) { v.Identity.Fits = false }, AwaitChallenge},
		"an expired identity":                    {func(v *ConsumerView) { v.Identity.Expired = true }, AwaitChallenge},
		"an identity that works":                 {func(*ConsumerView) {}, HandshakeDone},
		"a renewal that is due":                  {func(v *ConsumerView) { v.Identity.Due, v.Handshake.Challenged = true, true }, HandshakeDone},
		"a person's identity":                    {func(v *ConsumerView) { v.Identity = IdentityView{ObjectView: theirs} }, NoStep},
		"an earlier peering":                     {func(v *ConsumerView) { v.Namespace.Terminating = true }, NoStep},
		"an ended placement":                     {func(v *ConsumerView) { v.Release = true }, NoStep},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := consumer(test.change)
			if got := v.HandshakeStep(); got != test.want {
				t.Errorf("step %q, want %q", got, test.want)
			}
		})
	}
}

func TestHandshakeStepFollowsWhatTheProviderHas(t *testing.T) {
	tests := map[string]struct {
		change func(*ProviderView)
		want   HandshakeStep
	}{
		"nothing yet":                  {func(v *ProviderView) { v.Nonce, v.Tenant = ObjectView{}, TenantView{} }, NoStep},
		"a nonce":                      {func(v *ProviderView) { v.Tenant = TenantView{} }, AwaitAnswer},
		"an answer":                    {func(v *ProviderView) { v.Tenant, v.Handshake.Answered = TenantView{}, true }, AwaitCertificate},
		"an answer with another key":   {func(v *ProviderView) { v.Handshake.Answered = true }, AwaitCertificate},
		"a certificate":                {func(v *ProviderView) { v.Handshake = ProviderHandshake{Answered: true, SameKey: true} }, HandshakeDone},
		"a consumer that it has known": {func(*ProviderView) {}, HandshakeDone},
		"an earlier Tenant":            {func(v *ProviderView) { v.Tenant.Terminating = true }, NoStep},
		"an ended placement":           {func(v *ProviderView) { v.Release = true }, NoStep},
		"a peering that ends":          {func(v *ProviderView) { v.Unpeer = true }, NoStep},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := provider(test.change)
			if got := v.HandshakeStep(); got != test.want {
				t.Errorf("step %q, want %q", got, test.want)
			}
		})
	}
}
