package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// BindingsOfLiqo returns a selector of the RoleBindings that Liqo makes.
func BindingsOfLiqo() labels.Selector {
	return labels.SelectorFromSet(labels.Set{consts.K8sAppManagedByKey: consts.LiqoAppLabelValue})
}

// IsRemoteBinding reports whether a RoleBinding of Liqo gives a peer's virtual kubelets their
// rights in an offloaded namespace.
func IsRemoteBinding(obj client.Object) bool {
	b, ok := obj.(*rbacv1.RoleBinding)
	return ok && b.RoleRef.Kind == "ClusterRole" && b.RoleRef.Name == consts.RemoteNamespaceClusterRoleName && object.PeerOf(b.Labels) != ""
}

// KeepBindings restricts Liqo's RoleBindings in offloaded namespaces to the identities that
// Subjects returns. Liqo itself binds the role to the consumer's group. With that binding, the
// identity of an ended slice could read objects of the consumer's other slices until its
// certificate expires. An identity loses its rights seconds after its placement has ended and its
// last pod is gone, so KeepBindings must also run without an event. It ignores consumers whose tenant
// namespace the agent did not make.
func (g *Guard) KeepBindings(ctx context.Context) error {
	var instructions agentv1alpha1.ProviderInstructionList
	if err := g.opts.Client.List(ctx, &instructions, client.InNamespace(g.opts.InstructionNamespace)); err != nil {
		return err
	}
	live, err := g.dropEnded(ctx, instructions.Items)
	if err != nil {
		return err
	}
	subjects := Subjects(live)
	guarded, err := guardedConsumers(ctx, g.opts.Client)
	if err != nil {
		return err
	}
	var bindings rbacv1.RoleBindingList
	if err := g.opts.Client.List(ctx, &bindings, client.MatchingLabelsSelector{Selector: BindingsOfLiqo()}); err != nil {
		return err
	}
	for i := range bindings.Items {
		b := &bindings.Items[i]
		consumer := object.PeerOf(b.Labels)
		if !IsRemoteBinding(b) || b.DeletionTimestamp != nil || !slices.Contains(guarded, consumer) {
			continue
		}
		if equality.Semantic.DeepEqual(b.Subjects, subjects[consumer]) {
			continue
		}
		update := b.DeepCopy()
		update.Subjects = subjects[consumer]
		if err := g.opts.Client.Update(ctx, update); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("binding the slices of %q in namespace %q: %w", consumer, b.Namespace, err)
		}
	}
	return nil
}

const (
	// readsAfterEnd is how long the identity of an ended placement without pods keeps its rights: the
	// consumer's virtual kubelet may still report the end of the last pods.
	readsAfterEnd = 10 * time.Second
	// drainsAfterEnd is how long it keeps them while pods are left, which a drain removes. A consumer
	// that never removes them could otherwise read its other slices' Secrets without limit.
	drainsAfterEnd = 10 * time.Minute
)

// dropEnded returns the instructions without those of ended placements whose identities no longer
// need rights. The existence of a slice does not count: it is the consumer's decision.
func (g *Guard) dropEnded(ctx context.Context, instructions []agentv1alpha1.ProviderInstruction) (live []agentv1alpha1.ProviderInstruction, err error) {
	now := g.opts.Clock.Now()
	for i := range instructions {
		inst := &instructions[i]
		if since := inst.Status.ReleasingSince; inst.Ended() && since != nil && now.Sub(since.Time) >= readsAfterEnd {
			shadows := object.NewMetadataList(offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowPodList"))
			if err := g.opts.Client.List(ctx, shadows, client.MatchingLabels{object.OffloadedPodLabel: inst.Name}); err != nil {
				return nil, fmt.Errorf("listing ShadowPods of placement %q: %w", inst.Name, err)
			}
			if len(shadows.Items) == 0 || now.Sub(since.Time) >= drainsAfterEnd {
				continue
			}
		}
		live = append(live, *inst)
	}
	return live, nil
}

// Subjects returns the identities of the acknowledged placements, by consumer.
func Subjects(instructions []agentv1alpha1.ProviderInstruction) map[string][]rbacv1.Subject {
	out := map[string][]rbacv1.Subject{}
	for i := range instructions {
		inst := &instructions[i]
		if !inst.Status.Enforced {
			continue
		}
		consumer := inst.Spec.RequesterClusterID
		user := identityOf(inst.PlacementName(), consumer)
		out[consumer] = append(out[consumer], rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	for _, subjects := range out {
		slices.SortFunc(subjects, func(a, b rbacv1.Subject) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// guardedConsumers returns the consumers whose tenant namespace the agent made, sorted.
func guardedConsumers(ctx context.Context, c client.Reader) (consumers []string, err error) {
	var namespaces corev1.NamespaceList
	err = c.List(ctx, &namespaces, client.HasLabels{consts.TenantNamespaceLabel},
		client.MatchingLabels{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue})
	for i := range namespaces.Items {
		consumers = append(consumers, object.PeerOf(namespaces.Items[i].Labels))
	}
	slices.Sort(consumers)
	return consumers, err
}

// ForgetSlice deletes the Secret in which Liqo keeps the certificate of a deleted slice, unless a
// placement that has not ended still needs the slice. It returns nil if the agent may not delete
// the Secret: while the guard is off, the agent has no such permission.
func (g *Guard) ForgetSlice(ctx context.Context, namespace, slice string) error {
	ns := &corev1.Namespace{}
	if found, err := object.Get(ctx, g.opts.Client, "", namespace, ns); err != nil || !found || !object.Ours(ns) || !object.IsTenantNamespace(ns) {
		return err
	}
	inst := &agentv1alpha1.ProviderInstruction{}
	if found, err := object.Get(ctx, g.opts.Client, g.opts.InstructionNamespace, slice, inst); err != nil || found && !inst.Ended() {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object.CertificateSecretName + "-" + slice}}
	if err := g.opts.Client.Delete(ctx, secret); !apierrors.IsForbidden(err) {
		return client.IgnoreNotFound(err)
	}
	return nil
}
