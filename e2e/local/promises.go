package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// Promises holds times that the provider's agent promises to keep short.
type Promises struct {
	// Rights are the times from the release of a request until the identity of its slice can no longer write.
	Rights []time.Duration
	// Excess are the times from the creation of a pod above the grant until the pod is gone.
	Excess []time.Duration
}

// offloaded is the copy of the consumer's namespace at the provider.
const offloaded = namespace + "-" + peeredConsumer

// MeasurePromises measures each promise several times. The clusters must not be peered when it begins. They are not
// peered when it returns.
func (e *Environment) MeasurePromises(ctx context.Context, turns int) (p Promises, err error) {
	if err := e.EnsureNamespace(ctx, e.Member(peeredConsumer), namespace); err != nil {
		return p, err
	}
	if err := e.AwaitAdvertised(ctx, readyWithin); err != nil {
		return p, err
	}
	for n := range turns {
		took, err := e.measureRights(ctx, fmt.Sprintf("released-%d", n))
		if err != nil {
			return p, err
		}
		p.Rights = append(p.Rights, took)
	}
	// The webhook would refuse the pods.
	defer func() { err = errors.Join(err, e.setGuards(ctx, true)) }()
	if err := e.setGuards(ctx, false); err != nil {
		return p, err
	}
	if err := e.AwaitAdvertised(ctx, readyWithin); err != nil {
		return p, err
	}
	p.Excess, err = e.measureExcess(ctx, turns)
	return p, err
}

// readyIdentity creates a request and returns it, with the provider as the identity of its slice accesses it, once it
// may write.
func (e *Environment) readyIdentity(ctx context.Context, name string) (*agentv1alpha1.ResourceRequest, *e2e.Cluster, error) {
	consumer := e.Member(peeredConsumer)
	r, err := consumer.Request(ctx, namespace, name, small())
	if err != nil {
		return nil, nil, err
	}
	if err := consumer.AwaitReady(ctx, r, readyWithin); err != nil {
		return nil, nil, err
	}
	identity, err := e.SliceIdentity(ctx, peeredConsumer, peeredProvider, r.Status.NodeName)
	if err != nil {
		return nil, nil, err
	}
	return r, identity, e2e.Await(ctx, readyWithin, func(ctx context.Context) (string, error) { return "", write(ctx, identity) })
}

// write tries whether an identity may write at the provider.
func write(ctx context.Context, identity *e2e.Cluster) error {
	return identity.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: offloaded, Name: "written"}}, client.DryRunAll)
}

func (e *Environment) measureRights(ctx context.Context, name string) (time.Duration, error) {
	r, identity, err := e.readyIdentity(ctx, name)
	if err != nil {
		return 0, err
	}
	released := time.Now()
	if err := e.Member(peeredConsumer).Delete(ctx, r); err != nil {
		return 0, err
	}
	err = e2e.Await(ctx, readyWithin, func(ctx context.Context) (string, error) {
		if err := write(ctx, identity); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the identity of %q to be forbidden to write, it got: %v", name, err), nil
		}
		return "", nil
	})
	took := time.Since(released)
	return took, errors.Join(err, e.AwaitClean(ctx, readyWithin))
}

// measureExcess measures how long pods exist that exceed the grant.
func (e *Environment) measureExcess(ctx context.Context, turns int) (all []time.Duration, err error) {
	r, shadow, err := e.readyShadow(ctx)
	if err != nil {
		return nil, err
	}
	for n := range turns {
		took, err := e.exceedGrant(ctx, shadow, fmt.Sprintf("beyond-%d", n))
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	if err := errors.Join(e.ReleaseAll(ctx, readyWithin, namespace), e.AwaitClean(ctx, readyWithin)); err != nil {
		return nil, err
	}
	return all, e.liftPauses(ctx, peeredConsumer, string(r.UID)) // the broker has paused the consumer at this provider
}

// readyShadow creates a request, and a ShadowPod that fits into its grant.
func (e *Environment) readyShadow(ctx context.Context) (*agentv1alpha1.ResourceRequest, *unstructured.Unstructured, error) {
	r, identity, err := e.readyIdentity(ctx, "exceeded")
	if err != nil {
		return nil, nil, err
	}
	shadow := e2e.Object(e2e.ShadowPodKind, offloaded, "within")
	shadow.SetLabels(map[string]string{"offloading.liqo.io/origin": peeredConsumer, "offloading.liqo.io/nodename": r.Status.NodeName, "liqo.io/managed-by": "shadowpod"})
	amounts := map[string]any{"cpu": "10m", "memory": "16Mi"}
	shadow.Object["spec"] = map[string]any{"pod": map[string]any{"automountServiceAccountToken": false, "containers": []any{
		map[string]any{"name": "main", "image": image, "resources": map[string]any{"requests": amounts, "limits": amounts}},
	}}}
	return r, shadow, identity.Create(ctx, shadow)
}

// exceedGrant creates a pod as Liqo creates it for a ShadowPod, but larger than the grant, and waits until it is gone.
// Liqo counts ShadowPods, so only the agent notices the pod.
func (e *Environment) exceedGrant(ctx context.Context, shadow *unstructured.Unstructured, name string) (took time.Duration, err error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: offloaded, Name: name, Labels: shadow.GetLabels(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, e2e.ShadowPodKind)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "main", Image: image, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}},
		}},
	}
	began, provider := time.Now(), e.Member(peeredProvider)
	if err := provider.Create(ctx, pod); err != nil {
		return 0, err
	}
	err = provider.AwaitGone(ctx, pod, readyWithin)
	return time.Since(began), err
}

// liftPauses ends the pauses of a cluster. The broker does so once for each value.
func (e *Environment) liftPauses(ctx context.Context, id, value string) error {
	adv, err := e.Advertisement(ctx, id)
	if err != nil {
		return err
	}
	before := adv.DeepCopy()
	metav1.SetMetaDataAnnotation(&adv.ObjectMeta, brokerv1alpha1.LiftPausesAnnotation, value)
	return e.Broker.Patch(ctx, adv, client.MergeFrom(before))
}

// image is the image of the measured pods, which no node runs.
const image = "registry.k8s.io/pause:3.10"
