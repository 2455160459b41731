package guard

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// sliceUserPattern matches the user names that Liqo gives to the identities of slices made for
// reservations.
var sliceUserPattern = regexp.MustCompile(`^res-[a-z0-9]{10}-[1-9][0-9]*-[0-9a-f]{12}$`)

// decisionWait is how long a webhook waits for the decision about a placement. It must be shorter
// than the time that API servers wait for the webhook, which is 10 s unless the chart's value says
// otherwise. decisionPoll is how often the cached placement is read meanwhile.
const (
	decisionWait = 3 * time.Second
	decisionPoll = 10 * time.Millisecond
)

// Refusal is an error that says why a peer does not get a certificate. Any other error of
// CheckSigning or CheckSliceSigning means that no decision was possible.
type Refusal struct{ why string }

func (r *Refusal) Error() string { return r.why }

func refuseSigning(format string, args ...any) error {
	return &Refusal{why: fmt.Sprintf(format, args...)}
}

// CheckSliceSigning returns an error unless the certificate request in a consumer's ResourceSlice
// is valid. It must be for the identity of exactly that slice, and use the key of the consumer's
// Tenant. The slice's placement must exist, and must have neither ended nor been refused. A slice
// without a certificate request is also valid.
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
	// An open decision is not awaited: an update that fails meanwhile is lost, because Liqo's replicator
	// does not repeat it.
	_, err := g.findPlacement(ctx, consumer, slice.Name)
	return err
}

// CheckSigning checks a certificate request that Liqo makes for another cluster. The request must
// be for exactly one identity that this cluster gives: the control plane of a consumer that has a
// Tenant here, or one of that consumer's slices. In a guarded tenant namespace, this
// cluster must also have accepted the placement of the slice. CheckSigning waits up to decisionWait
// for that decision.
func (g *Guard) CheckSigning(ctx context.Context, csr []byte) error {
	request, err := handshake.ParseSigningRequest(csr)
	if err != nil {
		return refuseSigning("certificate request for another cluster: %s", err)
	}
	if len(request.Subject.Organization) == 0 {
		return refuseSigning("certificate request for another cluster: its subject %q has no organisation", message.Clip(request.Subject.String(), handshake.MaxQuoted))
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
		// Liqo forms the name of a slice's user from the names of the slice and of the consumer.
		var ofConsumer bool
		if slice, ofConsumer = strings.CutSuffix(want.CommonName, identityOf("", consumer)); !ofConsumer || slice == "" {
			return refuseSigning("certificate request for another cluster: user %q is not a slice of cluster %q", want.CommonName, consumer)
		}
	}
	guarded, err := g.checkTenant(ctx, consumer, csr)
	if err != nil || slice == "" || !guarded {
		return err
	}
	return g.checkAccepted(ctx, consumer, slice)
}

// checkTenant returns an error for a certificate request of a consumer that has no Tenant here, or
// whose Tenant holds another key. guarded is true if the agent made the tenant namespace or
// Options.Elsewhere is set. checkTenant reads from the API server before it refuses: Liqo requests a
// certificate as soon as the Tenant exists, and the cache may not contain the Tenant yet.
func (g *Guard) checkTenant(ctx context.Context, consumer string, csr []byte) (guarded bool, err error) {
	for _, reader := range []client.Reader{g.opts.Client, g.opts.Reader} {
		guarded, err = g.checkTenantIn(ctx, reader, consumer, csr)
		if err == nil {
			return guarded, nil
		}
	}
	return false, err
}

func (g *Guard) checkTenantIn(ctx context.Context, reader client.Reader, consumer string, csr []byte) (guarded bool, err error) {
	ns, err := object.FindTenantNamespace(ctx, reader, consumer)
	if err != nil {
		return false, err
	}
	var tenants authv1beta1.TenantList
	if ns != nil {
		if err := reader.List(ctx, &tenants, client.InNamespace(ns.Name)); err != nil {
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
	return false, refuseSigning("certificate request for another cluster: no Tenant of cluster %q is here", message.Clip(consumer, handshake.MaxQuoted))
}

// isByKeyOf accepts every key for a Tenant that was made without a handshake, because it may hold none.
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

// checkAccepted returns an error unless this cluster has accepted the placement of the consumer's
// slice, and the placement has not ended. It waits for an open decision for up to decisionWait.
func (g *Guard) checkAccepted(ctx context.Context, consumer, slice string) error {
	accepted := func(ctx context.Context) (bool, error) {
		inst, err := g.findPlacement(ctx, consumer, slice)
		return err == nil && inst.Status.Enforced, err
	}
	err := wait.PollUntilContextTimeout(ctx, decisionPoll, decisionWait, true, accepted)
	if wait.Interrupted(err) {
		return fmt.Errorf("this cluster has not decided yet about the reservation of slice %q: %w", slice, err)
	}
	return err
}

// findPlacement returns the placement of the consumer's slice. It returns a Refusal if there is
// none, if it has ended, or if this cluster has refused it. It reads from the API server before it
// refuses, because the cache may not contain the placement yet.
func (g *Guard) findPlacement(ctx context.Context, consumer, slice string) (*agentv1alpha1.ProviderInstruction, error) {
	for _, reader := range []client.Reader{g.opts.Client, g.opts.Reader} {
		inst := &agentv1alpha1.ProviderInstruction{}
		found, err := object.Get(ctx, reader, g.opts.InstructionNamespace, slice, inst)
		if err != nil {
			return nil, fmt.Errorf("reservation behind slice %q: %w", slice, err)
		}
		if found && inst.Spec.RequesterClusterID == consumer && !inst.Ended() && (inst.Status.Enforced || !inst.IsDecided()) {
			return inst, nil
		}
	}
	return nil, refuseSigning("cluster %q has no live reservation for slice %q", consumer, slice)
}
