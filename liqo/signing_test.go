package liqo

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake/handshaketest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func TestSlicesAreSignedForLiveReservationsAlone(t *testing.T) {
	w := newWorld(t)
	paris, rome := w.sites["paris"], handshaketest.NewKeyPair(t)
	w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.TenantNamespaceName("rome"), Labels: object.TenantNamespaceLabels("rome")}}))
	w.check(paris.client.Create(t.Context(), tenantOf("rome", object.TenantNamespaceName("rome"), rome.PEM)))
	byHand := map[string]string{consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"}
	w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Labels: byHand}}))
	w.check(paris.client.Create(t.Context(), tenantOf("oslo", "by-hand", rome.PEM)))
	w.reserve("rome", "paris", "res-a")
	w.reserve("rome", "paris", "res-ended")
	w.reserve("rome", "paris", "res-undecided")
	w.reserve("rome", "paris", "res-late")
	w.reserve("rome", "paris", "res-refused")
	change := func(name string, change func(*agentv1alpha1.ProviderInstruction)) {
		inst := &agentv1alpha1.ProviderInstruction{}
		w.exists("paris", "default", name, inst)
		change(inst)
		w.check(paris.client.Update(t.Context(), inst))
		change(inst) // the update returned the earlier status
		w.check(paris.client.Status().Update(t.Context(), inst))
	}
	change("res-ended-1", func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release = true })
	undecide := func(i *agentv1alpha1.ProviderInstruction) { i.Status.Enforced, i.Status.Conditions = false, nil }
	change("res-undecided-1", undecide)
	change("res-late-1", undecide)
	change("res-refused-1", func(i *agentv1alpha1.ProviderInstruction) {
		i.Status.Enforced = false
		i.Status.Conditions = []metav1.Condition{{Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse}}
	})

	slice := func(consumer, name string) *authv1beta1.ResourceSlice {
		s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.ConsumerClusterID = new(liqov1beta1.ClusterID(consumer))
		csr, err := authentication.GenerateCSRForResourceSlice(rome.Private, s)
		w.check(err)
		s.Spec.CSR = csr
		return s
	}
	controlPlane := func(consumer string) []byte {
		csr, err := authentication.GenerateCSRForControlPlane(rome.Private, liqov1beta1.ClusterID(consumer))
		w.check(err)
		return csr
	}
	asSlice := func(consumer, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return paris.peering.CheckSliceSigning(ctx, consumer, slice(consumer, name))
		}
	}
	asRequest := func(csr []byte) func(context.Context) error {
		return func(ctx context.Context) error { return paris.peering.CheckSigning(ctx, csr) }
	}
	stranger := handshaketest.NewKeyPair(t)
	byStranger := slice("rome", "res-a-1")
	byStranger.Spec.CSR = stranger.Request(t, &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"rome"}, CommonName: "res-a-1" + digestOfRome}})
	other := slice("rome", "res-b-1")
	other.Name = "res-a-1"
	tests := map[string]struct {
		check   func(context.Context) error
		problem string
	}{
		"a slice of a reservation": {check: asSlice("rome", "res-a-1")},
		"a slice that asks for nothing yet": {check: func(ctx context.Context) error {
			return paris.peering.CheckSliceSigning(ctx, "rome", &authv1beta1.ResourceSlice{})
		}},
		"a slice of none":                           {check: asSlice("rome", "flood-1"), problem: "no live reservation"},
		"a slice of an ended one":                   {check: asSlice("rome", "res-ended-1"), problem: "no live reservation"},
		"a slice of one that is not decided":        {check: asSlice("rome", "res-undecided-1")},
		"a slice of a refused one":                  {check: asSlice("rome", "res-refused-1"), problem: "no live reservation"},
		"a slice of another consumer's":             {check: asSlice("oslo", "res-a-1"), problem: "no live reservation"},
		"a slice that names another slice":          {check: func(ctx context.Context) error { return paris.peering.CheckSliceSigning(ctx, "rome", other) }, problem: "want exactly"},
		"a slice by another key":                    {check: func(ctx context.Context) error { return paris.peering.CheckSliceSigning(ctx, "rome", byStranger) }, problem: "not signed with the key"},
		"the request by another key":                {check: asRequest(byStranger.Spec.CSR), problem: "not signed with the key"},
		"the request for it":                        {check: asRequest(slice("rome", "res-a-1").Spec.CSR)},
		"the request for an ended one":              {check: asRequest(slice("rome", "res-ended-1").Spec.CSR), problem: "no live reservation"},
		"the request for a refused one":             {check: asRequest(slice("rome", "res-refused-1").Spec.CSR), problem: "no live reservation"},
		"the request for one of none":               {check: asRequest(slice("rome", "flood-1").Spec.CSR), problem: "no live reservation"},
		"the request of a peer that is not guarded": {check: asRequest(slice("oslo", "any").Spec.CSR)},
		"the request of a stranger":                 {check: asRequest(slice("bergen", "res-a-1").Spec.CSR), problem: "no Tenant"},
		"the request for a control plane":           {check: asRequest(controlPlane("rome"))},
		"the request for a stranger's":              {check: asRequest(controlPlane("bergen")), problem: "no Tenant"},
		"the control plane of a cluster named like another's slice": {
			check: asRequest(controlPlane("res-aaaaaaaaaa-1" + digestOfRome)), problem: "is that of a slice",
		},
		"a request for an administrator": {
			check:   asRequest(rome.RequestFor(t, handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, "system:masters")), handshaketest.RDN(handshaketest.Part(handshaketest.OIDCommonName, "rome")))),
			problem: "is not a slice of",
		},
		"a request for a control plane and more": {
			check:   asRequest(rome.RequestFor(t, handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, "liqo.io")), handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, "system:masters")), handshaketest.RDN(handshaketest.Part(handshaketest.OIDCommonName, "rome")))),
			problem: "want exactly",
		},
		"a request without organisation": {check: asRequest(rome.RequestFor(t, handshaketest.RDN(handshaketest.Part(handshaketest.OIDCommonName, "rome")))), problem: "no organisation"},
		"what is no request":             {check: asRequest([]byte("x")), problem: "not a CERTIFICATE REQUEST"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.check(t.Context())
			expectProblem(t, err, test.problem)
			if refusal := (*guard.Refusal)(nil); test.problem != "" && !errors.As(err, &refusal) {
				t.Errorf("%v is no refusal", err)
			}
		})
	}
	testSigningWaitsForTheDecision(t,
		func(ctx context.Context, name string) error {
			return paris.peering.CheckSigning(ctx, slice("rome", name).Spec.CSR)
		},
		func(name string) {
			change(name, func(i *agentv1alpha1.ProviderInstruction) { i.Status.Enforced = true })
		})
}

func testSigningWaitsForTheDecision(t *testing.T, check func(ctx context.Context, name string) error, accept func(name string)) {
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := check(soon, "res-undecided-1")
	expectProblem(t, err, "has not decided yet")
	if refusal := (*guard.Refusal)(nil); errors.As(err, &refusal) {
		t.Errorf("%v is a refusal, although the decision is open", err)
	}
	accepted := make(chan error, 1)
	go func() { accepted <- check(t.Context(), "res-late-1") }()
	accept("res-late-1")
	expectProblem(t, <-accepted, "")
}

func tenantOf(consumer, namespace string, publicKey []byte) *authv1beta1.Tenant {
	return &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: consumer},
		Spec:       authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(consumer), PublicKey: publicKey},
	}
}

func expectProblem(t *testing.T, err error, problem string) {
	t.Helper()
	switch {
	case problem == "" && err != nil:
		t.Errorf("refused: %v", err)
	case problem != "" && err == nil:
		t.Errorf("taken, want an error about %q", problem)
	case problem != "" && !strings.Contains(err.Error(), problem):
		t.Errorf("error %q does not mention %q", err, problem)
	}
}
