package identity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity/identitytest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// certified returns a certificate with the given start and lifetime, from its own CA.
func certified(t *testing.T, clusterID string, from time.Time, life time.Duration) *Certificate {
	t.Helper()
	return certifiedBy(t, identitytest.NewRegistry(t, clocktesting.NewFakePassiveClock(from)), clusterID, from, life)
}

func certifiedBy(t *testing.T, r *identitytest.Registry, clusterID string, from time.Time, life time.Duration) *Certificate {
	t.Helper()
	now, usual := r.Now, r.Life
	r.Edit(func(r *identitytest.Registry) { r.Now, r.Life = func() time.Time { return from }, life })
	defer r.Edit(func(r *identitytest.Registry) { r.Now, r.Life = now, usual })
	request, err := NewRequest(clusterID, identitytest.TrustDomain)
	runtest.Check(t, err)
	issued, err := r.Renew(t.Context(), clusterID, &v1.RenewalRequest{Csr: string(request.PEM)})
	runtest.Check(t, err)
	certificate, err := request.acceptAnswer(issued, from)
	runtest.Check(t, err)
	return certificate
}

func TestDecide(t *testing.T) {
	const life = 24 * time.Hour
	start := time.Now().Truncate(time.Second)
	c, other := certified(t, "rome", start, life), certified(t, "rome", start, life)
	request := &Request{ClusterID: "rome"}
	due := RenewalTime(c)
	at := func(age time.Duration) time.Time { return start.Add(age) }

	cases := map[string]struct {
		situation Situation
		want      Plan
	}{
		"a new cluster makes a key": {
			Situation{Now: at(0), CanEnrol: true}, Plan{Step: Prepare},
		},
		"a new cluster sends the key's request": {
			Situation{State: State{Request: request}, Now: at(0), CanEnrol: true}, Plan{Step: Enrol},
		},
		"a request for another cluster is not sent": {
			Situation{State: State{Request: &Request{ClusterID: "paris"}}, Now: at(0), CanEnrol: true}, Plan{Step: Prepare},
		},
		"a new cluster that knows no broker is stuck": {
			Situation{State: State{Request: request}, Now: at(0)}, Plan{Step: Stuck},
		},
		"what was stored is published, whoever leads": {
			Situation{State: State{Certificate: c}, Now: at(0)}, Plan{Step: Publish},
		},
		"what another replica stored is published": {
			Situation{State: State{Certificate: c}, Published: other, Now: at(0)}, Plan{Step: Publish},
		},
		"an old certificate is published before it is renewed": {
			Situation{State: State{Certificate: c}, Now: at(life * 9 / 10), Leading: true}, Plan{Step: Publish},
		},
		"a young certificate waits for two thirds of its life": {
			Situation{State: State{Certificate: c}, Published: c, Now: at(0), Leading: true, CanEnrol: true}, Plan{Step: Wait, Until: due},
		},
		"a follower waits for the leader": {
			Situation{State: State{Certificate: c}, Published: c, Now: at(life * 9 / 10), CanEnrol: true}, Plan{Step: Wait, Until: c.Leaf.NotAfter},
		},
		"a renewal begins with a new key": {
			Situation{State: State{Certificate: c}, Published: c, Now: due, Leading: true}, Plan{Step: Prepare},
		},
		"a renewal sends the request that is stored": {
			Situation{State: State{Certificate: c, Request: request}, Published: c, Now: due, Leading: true}, Plan{Step: Renew},
		},
		"a clock that is ahead of the issuer's does not renew without end": {
			Situation{State: State{Certificate: c}, Published: c, Now: at(life * 9 / 10), Received: at(life*9/10 - time.Minute), Leading: true},
			Plan{Step: Wait, Until: at(life*9/10 - time.Minute + life/3)},
		},
		"new roots of the broker cause a renewal": {
			Situation{State: State{Certificate: c, Request: request}, Published: c, Now: at(trustPause), Leading: true, Outdated: true}, Plan{Step: Renew},
		},
		"new roots just after a renewal are delayed": {
			Situation{State: State{Certificate: c}, Published: c, Now: at(time.Minute), Leading: true, Outdated: true}, Plan{Step: Wait, Until: at(trustPause)},
		},
		"a rejected certificate is replaced by enrolling": {
			Situation{State: State{Certificate: c, Request: request}, Published: c, Now: at(time.Minute), Leading: true, CanEnrol: true, Untrusted: true},
			Plan{Step: Enrol},
		},
		"a rejected certificate waits if the cluster cannot enrol": {
			Situation{State: State{Certificate: c}, Published: c, Now: at(time.Minute), Leading: true, Untrusted: true}, Plan{Step: Wait, Until: due},
		},
		"an expired certificate is replaced by enrolling, whoever leads": {
			Situation{State: State{Certificate: c, Request: request}, Published: c, Now: at(life + time.Second), CanEnrol: true}, Plan{Step: Enrol},
		},
		"an expired certificate is stuck if the cluster cannot enrol": {
			Situation{State: State{Certificate: c}, Published: c, Now: at(life + time.Second), Leading: true}, Plan{Step: Stuck},
		},
		"a secret that lost its certificate gets it back": {
			Situation{Published: c, Now: at(time.Hour), CanEnrol: true}, Plan{Step: Restore},
		},
		"an expired certificate is not brought back": {
			Situation{State: State{Request: request}, Published: c, Now: at(life + time.Second), CanEnrol: true}, Plan{Step: Enrol},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.situation.ClusterID = "rome"
			if diff := cmp.Diff(tc.want, Decide(tc.situation)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenewalTimeSpreadsClusters(t *testing.T) {
	const life = 30 * time.Hour
	start := time.Now().Truncate(time.Second)
	seen := map[time.Time]bool{}
	for range 20 {
		c := certified(t, "rome", start, life)
		due := RenewalTime(c)
		if due.After(start.Add(20*time.Hour)) || due.Before(start.Add(19*time.Hour)) || due != RenewalTime(c) {
			t.Errorf("renewal %s after the beginning of %s", due.Sub(start), life)
		}
		seen[due] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 certificates have %d times of renewal", len(seen))
	}
}

func TestReadStateKeepsUsableParts(t *testing.T) {
	c := certified(t, "rome", time.Now(), time.Hour)
	c.BrokerURLs = []string{"https://a:8443", "https://b:8443"}
	request, err := NewRequest("rome", identitytest.TrustDomain)
	runtest.Check(t, err)
	other, err := NewRequest("rome", identitytest.TrustDomain)
	runtest.Check(t, err)
	whole := State{Certificate: c, Request: request}
	cases := map[string]struct {
		edit                 func(data map[string][]byte)
		certificate, request bool
		problems             int
	}{
		"all":                          {func(map[string][]byte) {}, true, true, 0},
		"nothing":                      {func(data map[string][]byte) { clear(data) }, false, false, 0},
		"no request":                   {func(data map[string][]byte) { delete(data, pendingKeyEntry); delete(data, pendingRequestEntry) }, true, false, 0},
		"a request without its key":    {func(data map[string][]byte) { delete(data, pendingKeyEntry) }, true, false, 1},
		"a request of another key":     {func(data map[string][]byte) { data[pendingKeyEntry] = other.KeyPEM }, true, false, 1},
		"a request that was cut":       {func(data map[string][]byte) { data[pendingRequestEntry] = data[pendingRequestEntry][:99] }, true, false, 1},
		"a certificate without roots":  {func(data map[string][]byte) { delete(data, pki.AgentsCAFile) }, false, true, 1},
		"a certificate without a key":  {func(data map[string][]byte) { data[pki.KeyFile] = nil }, false, true, 1},
		"a certificate of another key": {func(data map[string][]byte) { data[pki.KeyFile] = other.KeyPEM }, false, true, 1},
		"a certificate that was cut":   {func(data map[string][]byte) { data[pki.CertFile] = data[pki.CertFile][:99] }, false, true, 1},
		"a root that is none":          {func(data map[string][]byte) { data[pki.CAFile] = []byte("edited by hand") }, false, true, 1},
		"both halves":                  {func(data map[string][]byte) { delete(data, pki.KeyFile); delete(data, pendingKeyEntry) }, false, false, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := whole.secretData()
			tc.edit(data)
			state := ReadState(data)
			if state.Certificate != nil && !state.Certificate.sameAs(c) || state.Request != nil && string(state.Request.PEM) != string(request.PEM) {
				t.Error("something else came back")
			}
			if (state.Certificate != nil) != tc.certificate || (state.Request != nil) != tc.request || len(state.Problems) != tc.problems {
				t.Errorf("certificate %v, request %v, problems %v", state.Certificate != nil, state.Request != nil, state.Problems)
			}
			if c := state.Certificate; c != nil {
				if diff := cmp.Diff([]string{"https://a:8443", "https://b:8443"}, c.BrokerURLs); diff != "" {
					t.Errorf("broker's addresses (-want +got):\n%s", diff)
				}
			}
		})
	}
}
