package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// ShadowPodPods selects the pods that Liqo makes from ShadowPods. Liqo sets this label itself,
// so a consumer cannot omit it from a ShadowPod.
const ShadowPodPods = consts.ManagedByLabelKey + "=" + consts.ManagedByShadowPodValue

// OffloadedFor returns the cluster named by a namespace's remote-cluster label, which Liqo sets
// when that cluster offloads the namespace here. It returns "" for tenant namespaces, which have
// the same label, and for namespaces without it.
func OffloadedFor(ns client.Object) string {
	if object.IsTenantNamespace(ns) {
		return ""
	}
	return ns.GetLabels()[consts.RemoteClusterID]
}

// Guards reports whether the agent made the consumer's tenant namespace. If so, everything that
// the consumer runs here belongs to a placement.
func (g *Guard) Guards(ctx context.Context, consumer string) (bool, error) {
	ns, err := object.FindTenantNamespace(ctx, g.opts.Client, consumer)
	if ns == nil || err != nil {
		return false, err
	}
	return object.Ours(ns), nil
}

// SetCordoned makes Liqo refuse new ShadowPods of a placement, or accept them again. It does
// nothing for a placement without a slice.
func (g *Guard) SetCordoned(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, cordoned bool) error {
	namespace, err := g.TenantNamespaceOf(ctx, inst.Spec.RequesterClusterID)
	if namespace == "" || err != nil {
		return err
	}
	slice := &authv1beta1.ResourceSlice{}
	found, err := object.Get(ctx, g.opts.Client, namespace, inst.Name, slice)
	if err != nil || !found || !object.Replicated(slice) || slice.DeletionTimestamp != nil {
		return err
	}
	if (slice.Annotations[consts.CordonResourceAnnotation] == "true") == cordoned {
		return nil
	}
	slice = slice.DeepCopy()
	if cordoned {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, consts.CordonResourceAnnotation, "true")
	} else {
		delete(slice.Annotations, consts.CordonResourceAnnotation)
	}
	if err := g.opts.Client.Update(ctx, slice); err != nil {
		return fmt.Errorf("setting cordon of slice %q to %t: %w", inst.Name, cordoned, err)
	}
	return nil
}

// DeleteShadowPod deletes the ShadowPod with the given name and UID, from which Liqo made a pod,
// so that Liqo does not make the pod again.
func (g *Guard) DeleteShadowPod(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	shadow := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	shadow.SetGroupVersionKind(offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowPod"))
	err := g.opts.Client.Delete(ctx, shadow, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err = client.IgnoreNotFound(err); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting ShadowPod %q: %w", key, err)
	}
	return nil
}

// HasShadowPod reports whether the ShadowPod with the given name and UID exists. If the cache does
// not contain it yet, it asks the API server.
func (g *Guard) HasShadowPod(ctx context.Context, key types.NamespacedName, uid types.UID) (bool, error) {
	for _, reader := range []client.Reader{g.opts.Client, g.opts.Reader} {
		shadow := object.NewMetadata(offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowPod"))
		found, err := object.Get(ctx, reader, key.Namespace, key.Name, shadow)
		if err != nil {
			return false, fmt.Errorf("reading ShadowPod %q: %w", key, err)
		}
		if found && shadow.GetUID() == uid {
			return true, nil
		}
	}
	return false, nil
}

// WaitingPod identifies a ShadowPod for which Liqo has not created a pod yet.
type WaitingPod struct {
	types.NamespacedName
	UID     types.UID
	Created metav1.Time
}

// WaitingPods lists the placement's ShadowPods that have no pod, oldest first. It reads from the
// cache; hasPod reports whether a pod exists.
func (g *Guard) WaitingPods(ctx context.Context, placement string, hasPod func(types.NamespacedName) bool) ([]WaitingPod, error) {
	shadows := object.NewMetadataList(offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowPodList"))
	if err := g.opts.Client.List(ctx, shadows, client.MatchingLabels{object.OffloadedPodLabel: placement}); err != nil {
		return nil, fmt.Errorf("listing ShadowPods of placement %q: %w", placement, err)
	}
	var waiting []WaitingPod
	for i := range shadows.Items {
		shadow := &shadows.Items[i]
		key := client.ObjectKeyFromObject(shadow)
		if shadow.DeletionTimestamp == nil && !hasPod(key) {
			waiting = append(waiting, WaitingPod{NamespacedName: key, UID: shadow.UID, Created: shadow.CreationTimestamp})
		}
	}
	slices.SortFunc(waiting, func(a, b WaitingPod) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.String(), b.String()))
	})
	return waiting, nil
}

// Retry is a ShadowPod without a pod. Guard.Retry makes Liqo create the pod.
type Retry struct {
	// Pod is the pod that Liqo would create.
	Pod    *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
}

// ReadWaiting reads a ShadowPod from the API server, because the cache may be outdated. It returns nil if the ShadowPod
// is gone, is being deleted, or has ended.
func (g *Guard) ReadWaiting(ctx context.Context, w WaitingPod) (*Retry, error) {
	shadow := &offloadingv1beta1.ShadowPod{}
	found, err := object.Get(ctx, g.opts.Reader, w.Namespace, w.Name, shadow)
	if err != nil || !found || shadow.UID != w.UID || shadow.DeletionTimestamp != nil ||
		shadow.Status.Phase == corev1.PodSucceeded || shadow.Status.Phase == corev1.PodFailed {
		return nil, err
	}
	return &Retry{Pod: &corev1.Pod{Spec: shadow.Spec.Pod}, shadow: shadow}, nil
}

// Retry makes Liqo try now to create the pod of a ShadowPod. After several refusals Liqo would
// wait for minutes, but any change of the ShadowPod makes it try again. Retry changes the phase
// in the status, which has no effect while there is no pod. It cannot change the spec, because
// Liqo's webhook allows that only to the creator.
func (g *Guard) Retry(ctx context.Context, r *Retry) error {
	phase := corev1.PodPending
	if r.shadow.Status.Phase == phase {
		phase = corev1.PodUnknown
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":%q}}`, r.shadow.UID, phase)
	err := g.opts.Client.Status().Patch(ctx, r.shadow, client.RawPatch(types.MergePatchType, patch))
	if err = client.IgnoreNotFound(err); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("waking Liqo for ShadowPod %q: %w", client.ObjectKeyFromObject(r.shadow), err)
	}
	return nil
}
