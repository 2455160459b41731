package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// consumerKey returns the key in the result of Rights for a consumer. Its right applies to those
// identities of the consumer that have no key of their own. The key contains a dot, so it cannot
// equal the user name of an identity.
func consumerKey(consumer string) string { return "cluster." + consumer }

// identityOf returns the user name of the identity that Liqo gives to a consumer for one of its
// slices.
func identityOf(slice, consumer string) string {
	return authentication.CommonNameResourceSliceCSR(&authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: slice},
		Spec:       authv1beta1.ResourceSliceSpec{ConsumerClusterID: new(liqov1beta1.ClusterID(consumer))},
	})
}

// sliceKey returns the key of Rights for a slice that a consumer may create in this cluster. It
// contains a slash, so it cannot equal the user name of an identity.
func sliceKey(slice, consumer string) string { return consumer + "/" + slice }

// Rights returns what the guarded consumers may do in this cluster, for each of their slices and
// identities. The admission policies enforce these rights. Liqo cannot: its certificates cannot be
// revoked and stay valid after their slice is gone, and it binds its role to the consumer instead
// of the slice.
//
// A consumer may create a slice once the placement has arrived, unless this cluster refuses the
// placement. The slice's identity may write from the acknowledgement of the placement until its
// end. After that, it may only delete. Once the instruction is gone, it may do nothing.
func Rights(instructions []agentv1alpha1.ProviderInstruction, guarded []string) map[string]agentv1alpha1.PeerRight {
	rights := map[string]agentv1alpha1.PeerRight{}
	for _, consumer := range guarded {
		rights[consumerKey(consumer)] = agentv1alpha1.PeerRightNone
	}
	for i := range instructions {
		inst := &instructions[i]
		identity, slice := keysOf(inst)
		switch {
		case inst.Status.Enforced && inst.Ended():
			rights[identity], rights[slice] = agentv1alpha1.PeerRightDelete, agentv1alpha1.PeerRightDelete
		case inst.Status.Enforced:
			rights[identity], rights[slice] = agentv1alpha1.PeerRightWrite, agentv1alpha1.PeerRightWrite
		case !inst.Ended() && !inst.IsDecided():
			rights[slice] = agentv1alpha1.PeerRightWrite
		}
	}
	return rights
}

// keysOf returns the keys that Rights uses for the identity and for the slice of a placement.
func keysOf(inst *agentv1alpha1.ProviderInstruction) (identity, slice string) {
	name, consumer := brokerv1alpha1.PlacementName(inst.Spec.ReservationName, inst.Spec.Placement), inst.Spec.RequesterClusterID
	return identityOf(name, consumer), sliceKey(name, consumer)
}

// AdmitSlice adds the right to create the slice of a placement to an Advertisement, before this
// cluster has decided about the placement. It returns an error if the Advertisement does not exist.
func (g *Guard) AdmitSlice(ctx context.Context, into types.NamespacedName, inst *agentv1alpha1.ProviderInstruction) error {
	adv := &agentv1alpha1.Advertisement{}
	if err := g.opts.Client.Get(ctx, into, adv); err != nil {
		return fmt.Errorf("rights of placement %q in Advertisement %q: %w", inst.Name, into.Name, err)
	}
	_, slice := keysOf(inst)
	if adv.Status.PeerRights[slice] == agentv1alpha1.PeerRightWrite {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"peerRights": map[string]any{slice: agentv1alpha1.PeerRightWrite}}})
	if err != nil {
		return err
	}
	if err := g.opts.Client.Status().Patch(ctx, adv, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("rights of placement %q in Advertisement %q: %w", inst.Name, into.Name, err)
	}
	return nil
}

// KeepRights writes Rights into the status of an Advertisement, where the admission policies read
// them. It does nothing if the Advertisement does not exist. Consumers whose tenant namespace the
// agent did not make are not guarded.
func (g *Guard) KeepRights(ctx context.Context, into types.NamespacedName) error {
	adv := &agentv1alpha1.Advertisement{}
	if found, err := object.Get(ctx, g.opts.Client, into.Namespace, into.Name, adv); !found || err != nil {
		return err
	}
	var instructions agentv1alpha1.ProviderInstructionList
	if err := g.opts.Client.List(ctx, &instructions, client.InNamespace(g.opts.InstructionNamespace)); err != nil {
		return err
	}
	guarded, err := g.guardedConsumers(ctx)
	if err != nil {
		return err
	}
	before := adv.DeepCopy()
	adv.Status.PeerRights = Rights(instructions.Items, guarded)
	if maps.Equal(before.Status.PeerRights, adv.Status.PeerRights) {
		return nil
	}
	return g.opts.Client.Status().Patch(ctx, adv, patch.IfUnchanged(before))
}
