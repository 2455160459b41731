package local

import (
	"crypto/x509"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// checkReceipts checks that the requester and the provider of a request have kept receipts that the broker signed, and
// that both receipts are about the same agreement.
func checkReceipts(t *testing.T, env *Environment, r *agentv1alpha1.ResourceRequest) {
	t.Helper()
	roots := serverCAs(t, env)
	agreementOf := func(where string, kept *brokerv1alpha1.Receipt, problem string) *receipt.Agreement {
		t.Helper()
		if kept == nil || problem != "" {
			t.Fatalf("%s keeps receipt %v, with the problem %q", where, kept, problem)
		}
		s, _, err := receipt.Verify(kept, roots)
		check(t, err)
		return &s.Agreement
	}
	var consumed agentv1alpha1.ReservationInstructionList
	check(t, env.Member("rome").List(t.Context(), &consumed))
	var provided agentv1alpha1.ProviderInstructionList
	check(t, env.Member(r.Status.TargetClusterID).List(t.Context(), &provided))
	var requester, provider *receipt.Agreement
	for i := range consumed.Items {
		if spec := &consumed.Items[i].Spec; spec.ReservationName == r.Status.ReservationName {
			requester = agreementOf("rome", spec.Receipt, spec.ReceiptProblem)
		}
	}
	for i := range provided.Items {
		if spec := &provided.Items[i].Spec; spec.ReservationName == r.Status.ReservationName {
			provider = agreementOf(r.Status.TargetClusterID, spec.Receipt, spec.ReceiptProblem)
		}
	}
	if requester == nil || provider == nil || !requester.Equal(provider) {
		t.Errorf("the requester can prove %+v, the provider %+v", requester, provider)
	}
}

// serverCAs returns the CAs of the certificates in the broker's namespace.
func serverCAs(t *testing.T, env *Environment) *x509.CertPool {
	t.Helper()
	var secrets corev1.SecretList
	check(t, env.Broker.List(t.Context(), &secrets, client.InNamespace(env.BrokerNamespace)))
	roots := x509.NewCertPool()
	for i := range secrets.Items {
		roots.AppendCertsFromPEM(secrets.Items[i].Data["ca.crt"])
	}
	return roots
}
