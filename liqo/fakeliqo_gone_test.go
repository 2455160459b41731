package liqo

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// reclaimAfter is how long tests wait for consumers, giveUpAfter how long for providers, and
// podGrace how long a pod takes to end.
const (
	giveUpAfter  = 6 * time.Second
	reclaimAfter = 8 * time.Second
	podGrace     = 4 * time.Second
)

// noteRelease records in the status that a placement has ended, as the controller does.
func (s *site) noteRelease(w *world, inst *agentv1alpha1.ProviderInstruction) {
	w.t.Helper()
	if !inst.Ended() || inst.Status.ReleasingSince != nil {
		return
	}
	inst.Status.ReleasingSince = new(metav1.Now())
	w.check(s.client.Status().Update(w.t.Context(), inst))
}

// mayReplicate reports whether the provider's Tenant still gives the consumer its rights.
func (w *world) mayReplicate(provider, consumer string) bool {
	w.t.Helper()
	var tenant authv1beta1.Tenant
	return w.exists(provider, object.TenantNamespaceName(consumer), consumer, &tenant) &&
		tenant.Spec.TenantCondition != authv1beta1.TenantConditionDrained
}

// drain removes the replicas of a drained Tenant, and quotas whose slice is gone, as Liqo does.
func (w *world) drain(provider, consumer string) {
	w.t.Helper()
	ctx, c, ns := w.t.Context(), w.sites[provider].client, object.TenantNamespaceName(consumer)
	var slices authv1beta1.ResourceSliceList
	w.check(c.List(ctx, &slices, client.InNamespace(ns), client.MatchingLabels{consts.RemoteClusterID: consumer, object.ReplicatedLabel: "true"}))
	quotas := map[string]bool{}
	for i := range slices.Items {
		s := &slices.Items[i]
		quotas[authentication.CommonNameResourceSliceCSR(s)] = true
		if w.exists(provider, ns, consumer, &authv1beta1.Tenant{}) && !w.mayReplicate(provider, consumer) {
			w.delete(provider, s)
		}
	}
	var list offloadingv1beta1.QuotaList
	w.check(c.List(ctx, &list, client.InNamespace(ns)))
	for i := range list.Items {
		if !quotas[list.Items[i].Name] {
			w.delete(provider, &list.Items[i])
		}
	}
}

// runPod starts a pod of a placement at its provider.
func (w *world) runPod(provider, placement string) {
	w.t.Helper()
	object := metav1.ObjectMeta{Namespace: "demo-rome", Name: "pod-of-" + placement, Labels: map[string]string{object.OffloadedPodLabel: placement}}
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: object}
	w.check(w.sites[provider].client.Create(w.t.Context(), shadow))
	w.check(w.sites[provider].client.Create(w.t.Context(), &corev1.Pod{ObjectMeta: object}))
}

// collectPods ends pods whose ShadowPod is gone, after their grace period.
func (w *world) collectPods(provider string) {
	w.t.Helper()
	var pods corev1.PodList
	w.check(w.sites[provider].client.List(w.t.Context(), &pods))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if w.exists(provider, pod.Namespace, pod.Name, &offloadingv1beta1.ShadowPod{}) {
			continue
		}
		if pod.Spec.ActiveDeadlineSeconds == nil { // stands in for the deletionTimestamp
			pod.Spec.ActiveDeadlineSeconds = new(time.Now().Add(podGrace).Unix())
			w.check(w.sites[provider].client.Update(w.t.Context(), pod))
		}
		if time.Now().Unix() >= *pod.Spec.ActiveDeadlineSeconds {
			w.delete(provider, pod)
		}
	}
}

// collectNodes removes virtual nodes whose slice is gone.
func (w *world) collectNodes(consumer, namespace string) {
	w.t.Helper()
	var nodes offloadingv1beta1.VirtualNodeList
	w.check(w.sites[consumer].client.List(w.t.Context(), &nodes, client.InNamespace(namespace)))
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !w.exists(consumer, namespace, name, &authv1beta1.ResourceSlice{}) {
			w.deleteNode(consumer, namespace, name)
		}
	}
}

// provides returns the instruction of a placement at its provider, nil if it is gone.
func (w *world) provides(provider, placement string) *agentv1alpha1.ProviderInstruction {
	w.t.Helper()
	inst := &agentv1alpha1.ProviderInstruction{}
	if !w.exists(provider, "default", placement, inst) {
		return nil
	}
	return inst
}

// replicatorFinalizer is Liqo's finalizer on objects that it replicates.
const replicatorFinalizer = "crdreplicator.liqo.io/resource"

// letGo processes a slice that is being deleted, as Liqo does. It deletes the replica, or hangs if
// it cannot. When the identity changes, it forgets what it replicated to the provider. After the
// provider was given up, it does not wait for the replica.
func (w *world) letGo(s *authv1beta1.ResourceSlice, consumer, provider string) {
	w.t.Helper()
	var identity authv1beta1.Identity
	parted := w.exists(consumer, s.Namespace, object.IdentityName(provider), &identity) && *identity.Spec.Namespace != object.TenantNamespaceName(consumer)
	var fc liqov1beta1.ForeignCluster
	givenUp := w.exists(consumer, "", provider, &fc) && !w.answers(&fc) && reachMarks(&fc).GivenUp
	if !parted && !givenUp {
		if w.sites[consumer].cut || w.sites[provider].cut || w.sites[consumer].stale && !w.mayReplicate(provider, consumer) {
			return
		}
		var replica authv1beta1.ResourceSlice
		if w.exists(provider, object.TenantNamespaceName(consumer), s.Name, &replica) && w.mayReplicate(provider, consumer) {
			w.takeDown(&replica, consumer, provider)
		}
	}
	if controllerutil.RemoveFinalizer(s, replicatorFinalizer) {
		w.check(w.sites[consumer].client.Update(w.t.Context(), s))
	}
}

func (w *world) answers(fc *liqov1beta1.ForeignCluster) bool {
	return len(fc.Status.Conditions) == 0 || fc.Status.Conditions[0].Status == liqov1beta1.ConditionStatusEstablished
}

// noteDeparture records in the status that a placement has ended, as the controller does.
func (s *site) noteDeparture(w *world, inst *agentv1alpha1.ReservationInstruction) {
	w.t.Helper()
	if !inst.Ended() || inst.Status.ReleasingSince != nil {
		return
	}
	inst.Status.ReleasingSince = new(metav1.Now())
	w.check(s.client.Status().Update(w.t.Context(), inst))
}

// cutOff makes a cluster unreachable, or reachable again, also in the view of its peers' Liqo.
func (w *world) cutOff(id string, cut bool) {
	w.t.Helper()
	w.sites[id].cut = cut
	for other, s := range w.sites {
		var fc liqov1beta1.ForeignCluster
		if other == id || !w.exists(other, "", id, &fc) {
			continue
		}
		status := liqov1beta1.ConditionStatusEstablished
		if cut {
			status = liqov1beta1.ConditionStatusError
		}
		fc.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatusCondition, Status: status}}
		w.check(s.client.Update(w.t.Context(), &fc))
	}
}
