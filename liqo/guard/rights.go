package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// The agent keeps the rights of consumers in annotations of its own namespace, where the admission
// policies read them.
const (
	// clusterIDAnnotation holds the ID of this cluster.
	clusterIDAnnotation = "broker.fluidos.eu/cluster-id"
	// guardedAnnotation holds the IDs of the consumers whose tenant namespace the agent made. Without
	// this annotation the policies take every consumer for one of them.
	guardedAnnotation = "broker.fluidos.eu/guarded-peers"
	// rightsDomain ends the prefix of annotations such as rome.peers.broker.fluidos.eu/res-0123456789-1,
	// the right of a consumer to a slice.
	rightsDomain = ".peers.broker.fluidos.eu/"
)

// A Right is what a consumer may do with a slice in this cluster, and with the slice's identity.
type Right string

const (
	// CreateRight allows the consumer to create the slice, whose identity may do nothing yet.
	CreateRight Right = "Create"
	// WriteRight also allows all writes of the identity in offloaded namespaces.
	WriteRight Right = "Write"
	// DeleteRight allows the identity to delete.
	DeleteRight Right = "Delete"
)

// identityOf returns the user name of the identity that Liqo gives to a consumer for one of its
// slices.
func identityOf(slice, consumer string) string {
	return authentication.CommonNameResourceSliceCSR(&authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: slice},
		Spec:       authv1beta1.ResourceSliceSpec{ConsumerClusterID: new(liqov1beta1.ClusterID(consumer))},
	})
}

func rightOf(inst *agentv1alpha1.ProviderInstruction) string {
	return inst.Spec.RequesterClusterID + rightsDomain + inst.PlacementName()
}

// hasRight reports whether a placement can have a right. The name of a requester that is not a
// cluster, see Reservation.spec.requesterID, may have characters that Kubernetes does not accept in
// annotations. No cluster has such an ID, and one wrong annotation would make Kubernetes refuse all.
func hasRight(inst *agentv1alpha1.ProviderInstruction) bool {
	return len(validation.IsQualifiedName(strings.ToLower(rightOf(inst)))) == 0
}

// Rights returns what consumers may do in this cluster, by annotation. The admission policies
// enforce these rights. Liqo cannot: its certificates cannot be revoked and stay valid after their
// slice is gone, and it binds its role to the consumer instead of the slice.
//
// A consumer may create a slice once the placement has arrived, unless this cluster refuses the
// placement. The slice's identity may write from the acknowledgement of the placement until its
// end. After that, it may only delete. Once the instruction is gone, it may do nothing.
func Rights(instructions []agentv1alpha1.ProviderInstruction) map[string]Right {
	rights := map[string]Right{}
	for i := range instructions {
		inst := &instructions[i]
		switch {
		case !hasRight(inst):
		case inst.Status.Enforced && inst.Ended():
			rights[rightOf(inst)] = DeleteRight
		case inst.Status.Enforced:
			rights[rightOf(inst)] = WriteRight
		case !inst.Ended() && !inst.IsDecided():
			rights[rightOf(inst)] = CreateRight
		}
	}
	return rights
}

// mostRights is how many bytes of annotations the rights may take. Kubernetes allows an object 256 KiB.
const mostRights = 192 << 10

// fitRights drops rights that would take more than mostRights bytes, those of placements that this
// cluster has not decided about first, and returns how many it dropped. Kubernetes would refuse all
// annotations otherwise, and ended identities would keep their rights.
func fitRights(rights map[string]Right) (dropped int) {
	size := 0
	for _, kind := range []Right{WriteRight, DeleteRight, CreateRight} {
		for _, key := range slices.Sorted(maps.Keys(rights)) {
			if rights[key] != kind {
				continue
			}
			if size += len(key) + len(kind); size > mostRights {
				delete(rights, key)
				dropped++
			}
		}
	}
	return dropped
}

// AdmitSlice adds the right to create the slice of a placement to the namespace of the agent,
// before this cluster has decided about the placement.
func (g *Guard) AdmitSlice(ctx context.Context, namespace string, inst *agentv1alpha1.ProviderInstruction) error {
	if !hasRight(inst) {
		return nil
	}
	ns := &corev1.Namespace{}
	err := g.opts.Client.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	if key := rightOf(inst); err == nil && ns.Annotations[key] == "" {
		err = g.opts.Client.Patch(ctx, ns, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, CreateRight)))
	}
	if err != nil {
		return fmt.Errorf("right of placement %q in the annotations of namespace %q: %w", inst.Name, namespace, err)
	}
	return nil
}

// InitRights writes which consumers are guarded into the annotations of the agent's namespace, unless
// that is there. Until then the policies refuse the consumers whose tenant namespace a person made
// too, so the agent calls it before anything that may take long, such as its enrolment.
func InitRights(ctx context.Context, c client.Client, namespace string) error {
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return fmt.Errorf("guarded consumers in the annotations of namespace %q: %w", namespace, err)
	}
	if _, written := ns.Annotations[guardedAnnotation]; written {
		return nil
	}
	guarded, err := guardedConsumers(ctx, c)
	if err != nil {
		return err
	}
	update := ns.DeepCopy()
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, guardedAnnotation, strings.Join(guarded, " "))
	return c.Patch(ctx, update, patch.IfUnchanged(ns))
}

// KeepRights writes Rights into the annotations of the agent's namespace, where the admission
// policies read them. The policies do not need these rights of consumers whose tenant namespace the
// agent did not make.
func (g *Guard) KeepRights(ctx context.Context, namespace string) error {
	ns := &corev1.Namespace{}
	if err := g.opts.Client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return fmt.Errorf("rights of consumers in the annotations of namespace %q: %w", namespace, err)
	}
	var instructions agentv1alpha1.ProviderInstructionList
	if err := g.opts.Client.List(ctx, &instructions, client.InNamespace(g.opts.InstructionNamespace)); err != nil {
		return err
	}
	guarded, err := guardedConsumers(ctx, g.opts.Client)
	if err != nil {
		return err
	}
	update := ns.DeepCopy()
	maps.DeleteFunc(update.Annotations, func(key, _ string) bool { return strings.Contains(key, rightsDomain) })
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, clusterIDAnnotation, g.opts.ClusterID)
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, guardedAnnotation, strings.Join(guarded, " "))
	rights := Rights(instructions.Items)
	if dropped := fitRights(rights); dropped > 0 {
		g.opts.Log.Info("WARNING: too many placements: the annotations of the agent's namespace have no room for the rights of all, so that consumers are refused",
			"namespace", namespace, "placements", len(rights)+dropped, "refused", dropped)
	}
	for key, right := range rights {
		update.Annotations[key] = string(right)
	}
	if maps.Equal(ns.Annotations, update.Annotations) {
		return nil
	}
	return g.opts.Client.Patch(ctx, update, patch.IfUnchanged(ns))
}
