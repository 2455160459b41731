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

// consumerKey is the key for those identities of a consumer that have no entry of their own. The
// dot keeps it distinct from the name of an identity.
func consumerKey(consumer string) string { return "cluster." + consumer }

// identityOf returns the user name that Liqo gives to a consumer's slice.
func identityOf(slice, consumer string) string {
	return authentication.CommonNameResourceSliceCSR(&authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: slice},
		Spec:       authv1beta1.ResourceSliceSpec{ConsumerClusterID: new(liqov1beta1.ClusterID(consumer))},
	})
}

// sliceKey is the key for a slice that a consumer may create here. The slash keeps it distinct
// from the name of an identity.
func sliceKey(slice, consumer string) string { return consumer + "/" + slice }

// Rights returns the rights of every identity of the guarded consumers. An identity may write
// while its placement stands. After the placement's end it may only delete, and nothing once the
// placement is gone. The policies need these rights because Liqo's certificates cannot be revoked and
// outlive their slice, and because Liqo binds its role to the consumer and not to the slice.
func Rights(instructions []agentv1alpha1.ProviderInstruction, guarded []string) map[string]agentv1alpha1.PeerRight {
	rights := map[string]agentv1alpha1.PeerRight{}
	for _, consumer := range guarded {
		rights[consumerKey(consumer)] = agentv1alpha1.PeerRightNone
	}
	for i := range instructions {
		inst := &instructions[i]
		if !inst.Status.Enforced {
			continue
		}
		for _, key := range keysOf(inst) {
			rights[key] = agentv1alpha1.PeerRightWrite
			if inst.Ended() {
				rights[key] = agentv1alpha1.PeerRightDelete
			}
		}
	}
	return rights
}

// keysOf returns the keys for the identity and for the slice of a placement.
func keysOf(inst *agentv1alpha1.ProviderInstruction) [2]string {
	slice, consumer := brokerv1alpha1.PlacementName(inst.Spec.ReservationName, inst.Spec.Placement), inst.Spec.RequesterClusterID
	return [2]string{identityOf(slice, consumer), sliceKey(slice, consumer)}
}

// OpenRights writes the rights of a placement that this cluster has decided to provide. They
// thus apply before the broker and the consumer learn of the decision. OpenRights returns an
// error while there is no Advertisement.
func (g *Guard) OpenRights(ctx context.Context, into types.NamespacedName, inst *agentv1alpha1.ProviderInstruction) error {
	g.opened.Store(inst.UID, struct{}{})
	adv := &agentv1alpha1.Advertisement{}
	if err := g.opts.Client.Get(ctx, into, adv); err != nil {
		return fmt.Errorf("rights of placement %q in Advertisement %q: %w", inst.Name, into.Name, err)
	}
	missing := map[string]agentv1alpha1.PeerRight{}
	for _, key := range keysOf(inst) {
		if adv.Status.PeerRights[key] != agentv1alpha1.PeerRightWrite {
			missing[key] = agentv1alpha1.PeerRightWrite
		}
	}
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"peerRights": missing}})
	if err != nil {
		return err
	}
	if err := g.opts.Client.Status().Patch(ctx, adv, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("rights of placement %q in Advertisement %q: %w", inst.Name, into.Name, err)
	}
	return nil
}

// countOpened marks as enforced the placements whose rights are open although the cache does not
// show them as enforced yet.
func (g *Guard) countOpened(instructions []agentv1alpha1.ProviderInstruction) {
	known := map[types.UID]bool{}
	for i := range instructions {
		inst := &instructions[i]
		known[inst.UID] = true
		if _, opened := g.opened.Load(inst.UID); !opened {
			continue
		}
		if inst.Status.Enforced || inst.Ended() {
			g.opened.Delete(inst.UID)
			continue
		}
		inst.Status.Enforced = true
	}
	g.opened.Range(func(uid, _ any) bool {
		if !known[uid.(types.UID)] {
			g.opened.Delete(uid)
		}
		return true
	})
}

// KeepRights writes the rights into the status of an Advertisement, where the policy reads them.
// It does nothing while the Advertisement does not exist. Consumers whose tenant namespace the
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
	g.countOpened(instructions.Items)
	adv.Status.PeerRights = Rights(instructions.Items, guarded)
	if maps.Equal(before.Status.PeerRights, adv.Status.PeerRights) {
		return nil
	}
	return g.opts.Client.Status().Patch(ctx, adv, patch.IfUnchanged(before))
}
