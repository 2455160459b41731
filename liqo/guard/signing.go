package guard

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// sliceUserPattern matches the users that Liqo makes of slices with a reservation.
var sliceUserPattern = regexp.MustCompile(`^res-[a-z0-9]{10}-[1-9][0-9]*-[0-9a-f]{12}$`)

// Refusal is the reason why a peer does not get a certificate. Other errors mean that no
// decision was possible.
type Refusal struct{ why string }

func (r *Refusal) Error() string { return r.why }

func refuseSigning(format string, args ...any) error {
	return &Refusal{why: fmt.Sprintf(format, args...)}
}

// CheckSliceSigning returns an error unless the certificate request in the consumer's
// ResourceSlice is for the identity of that slice alone, uses the key of the consumer's Tenant,
// and is backed by a reservation. It accepts a slice without a certificate request.
func (g *Guard) CheckSliceSigning(ctx context.Context, consumer string, slice *authv1beta1.ResourceSlice) error {
	if len(slice.Spec.CSR) == 0 {
		return nil
	}
	want := handshake.Subject{Organisation: consumer, CommonName: identityOf(slice.Name, consumer)}
	if err := handshake.CheckSigningRequest(slice.Spec.CSR, want); err != nil {
		return refuseSigning("spec.csr of ResourceSlice %q of cluster %q: %s", slice.Name, consumer, err)
	}
	if _, err := g.checkTenant(ctx, consumer, slice.Spec.CSR); err != nil {
		return err
	}
	return g.checkReserved(ctx, consumer, slice.Name)
}

// CheckSigning returns an error unless a certificate request that Liqo makes for another cluster
// is for exactly one identity that this cluster gives: the control plane of a consumer with a
// Tenant here, or a slice of one. If the agent guards the tenant namespace, the slice also needs
// a reservation.
func (g *Guard) CheckSigning(ctx context.Context, csr []byte) error {
	request, err := handshake.ParseSigningRequest(csr)
	if err != nil {
		return refuseSigning("certificate request for another cluster: %s", err)
	}
	if len(request.Subject.Organization) == 0 {
		return refuseSigning("certificate request for another cluster: its subject %q has no organisation", handshake.Shorten(request.Subject.String()))
	}
	want := handshake.Subject{Organisation: request.Subject.Organization[0], CommonName: request.Subject.CommonName}
	if err := handshake.CheckSigningRequest(csr, want); err != nil {
		return refuseSigning("certificate request for another cluster: %s", err)
	}
	consumer, slice := want.CommonName, ""
	if want.Organisation == object.ControlPlaneGroup && sliceUserPattern.MatchString(consumer) {
		return refuseSigning("certificate request for another cluster: user %q is that of a slice, no cluster has that ID", consumer)
	}
	if want.Organisation != object.ControlPlaneGroup {
		consumer = want.Organisation
		if slice = sliceOf(want.CommonName, consumer); slice == "" {
			return refuseSigning("certificate request for another cluster: user %q is not a slice of cluster %q", want.CommonName, consumer)
		}
	}
	guarded, err := g.checkTenant(ctx, consumer, csr)
	if err != nil || slice == "" || !guarded {
		return err
	}
	return g.checkReserved(ctx, consumer, slice)
}

// sliceOf returns the name of the consumer's slice for which Liqo made the user, "" if there is
// none.
func sliceOf(user, consumer string) string {
	suffix := identityOf("", consumer)
	name, ok := strings.CutSuffix(user, suffix)
	if !ok {
		return ""
	}
	return name
}

// checkTenant refuses a consumer that has no Tenant here, or whose Tenant holds another key than
// the request. It reports whether the tenant namespace is guarded. It reads from the API server,
// because Liqo requests a certificate as soon as the Tenant exists.
func (g *Guard) checkTenant(ctx context.Context, consumer string, csr []byte) (guarded bool, err error) {
	ns, err := object.FindTenantNamespace(ctx, g.opts.Reader, consumer)
	if err != nil {
		return false, err
	}
	var tenants authv1beta1.TenantList
	if ns != nil {
		if err := g.opts.Reader.List(ctx, &tenants, client.InNamespace(ns.Name)); err != nil {
			return false, fmt.Errorf("tenant of %q: %w", consumer, err)
		}
	}
	for i := range tenants.Items {
		tenant := &tenants.Items[i]
		if string(tenant.Spec.ClusterID) != consumer {
			continue
		}
		if !isByKeyOf(tenant, csr) {
			return false, refuseSigning("certificate request for another cluster: it was not signed with the key of Tenant %q", consumer)
		}
		return object.Ours(ns) || g.opts.Elsewhere, nil
	}
	return false, refuseSigning("certificate request for another cluster: no Tenant of cluster %q is here", handshake.Shorten(consumer))
}

// isByKeyOf reports whether a checked request uses the Tenant's key. A Tenant that was made
// without a handshake may hold no key; then isByKeyOf reports true.
func isByKeyOf(tenant *authv1beta1.Tenant, csr []byte) bool {
	if authv1beta1.GetAuthzPolicyValue(tenant.Spec.AuthzPolicy) == authv1beta1.TolerateNoHandshake {
		return true
	}
	request, err := handshake.ParseSigningRequest(csr)
	if err != nil {
		return false
	}
	_, der, err := authentication.ParseTenantPublicKey(tenant.Spec.PublicKey)
	return err == nil && bytes.Equal(request.RawSubjectPublicKeyInfo, der)
}

// checkReserved refuses a slice without a live reservation. It asks the API server before it
// refuses, because the cache may not show the reservation yet.
func (g *Guard) checkReserved(ctx context.Context, consumer, slice string) error {
	for _, reader := range []client.Reader{g.opts.Client, g.opts.Reader} {
		inst := &agentv1alpha1.ProviderInstruction{}
		found, err := object.Get(ctx, reader, g.opts.InstructionNamespace, slice, inst)
		if err != nil {
			return fmt.Errorf("reservation behind slice %q: %w", slice, err)
		}
		if found && inst.Spec.RequesterClusterID == consumer && inst.Status.Enforced && !inst.Ended() {
			return nil
		}
	}
	return refuseSigning("cluster %q has no live reservation for slice %q", consumer, slice)
}
