package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Request creates a ResourceRequest for the given resources. It first calls each function in change with the spec.
func (c *Cluster) Request(ctx context.Context, namespace, name string, resources corev1.ResourceList, change ...func(*agentv1alpha1.ResourceRequestSpec)) (*agentv1alpha1.ResourceRequest, error) {
	r := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for name, amount := range resources {
		switch name {
		case corev1.ResourceCPU:
			r.Spec.CPU = &amount
		case corev1.ResourceMemory:
			r.Spec.Memory = &amount
		default:
			if r.Spec.Resources == nil {
				r.Spec.Resources = brokerv1alpha1.RequestedResources{}
			}
			r.Spec.Resources[name] = amount
		}
	}
	for _, f := range change {
		f(&r.Spec)
	}
	if err := c.Create(ctx, r); err != nil {
		return nil, fmt.Errorf("asking for ResourceRequest %q in %s: %w", name, c.Name, err)
	}
	return r, nil
}

// AwaitReady waits until a request is Ready, so that pods can run on its virtual node.
func (c *Cluster) AwaitReady(ctx context.Context, r *agentv1alpha1.ResourceRequest, within time.Duration) error {
	return c.AwaitCondition(ctx, r, within, agentv1alpha1.ConditionReady, nil)
}

// Named returns a function that gives a Deployment another name, and changes the labels of its pods accordingly.
func Named(name string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		const label = "app.kubernetes.io/name"
		u.SetName(name)
		for _, path := range [][]string{
			{"metadata", "labels", label},
			{"spec", "selector", "matchLabels", label},
			{"spec", "template", "metadata", "labels", label},
		} {
			_ = unstructured.SetNestedField(u.Object, name, path...)
		}
	}
}

// Held returns the names and phases of a requester's reservations that have not ended, including those that wait for
// capacity.
func (e *Environment) Held(ctx context.Context, requester string) ([]string, error) {
	list := &brokerv1alpha1.ReservationList{}
	if err := e.Broker.List(ctx, list); err != nil {
		return nil, err
	}
	var held []string
	for _, r := range list.Items {
		over := r.Status.Phase == brokerv1alpha1.ReservationReleased || r.Status.Phase == brokerv1alpha1.ReservationFailed
		if r.Spec.RequesterID == requester && !over {
			held = append(held, fmt.Sprintf("%s (%s)", r.Name, r.Status.Phase))
		}
	}
	return held, nil
}

// AwaitHeld waits until Held returns n reservations of a requester.
func (e *Environment) AwaitHeld(ctx context.Context, requester string, n int, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		held, err := e.Held(ctx, requester)
		if err != nil || len(held) == n {
			return "", err
		}
		return fmt.Sprintf("%d reservations to hold capacity for %s, there are %v", n, requester, held), nil
	})
}

// AwaitNodeGone waits until a cluster has no node with a name.
func (c *Cluster) AwaitNodeGone(ctx context.Context, name string, within time.Duration) error {
	return c.AwaitGone(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, within)
}

// ReleaseAll deletes the Deployments in the given namespaces, all requests and all Reservations. It then waits until no
// capacity is held.
func (e *Environment) ReleaseAll(ctx context.Context, within time.Duration, namespaces ...string) error {
	done := make(chan error)
	for _, c := range e.Members {
		go func() { done <- c.releaseAll(ctx, within, namespaces...) }()
	}
	var errs []error
	for range e.Members {
		errs = append(errs, <-done)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := e.Broker.deleteAll(ctx, &brokerv1alpha1.ReservationList{}, within); err != nil {
		return err
	}
	for id := range e.Members {
		if err := e.AwaitHeld(ctx, id, 0, within); err != nil {
			return err
		}
	}
	return nil
}

// releaseAll deletes the Deployments in the given namespaces, and all requests.
func (c *Cluster) releaseAll(ctx context.Context, within time.Duration, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := c.DeleteDeployments(ctx, namespace); err != nil {
			return err
		}
	}
	return c.deleteAll(ctx, &agentv1alpha1.ResourceRequestList{}, within)
}

// deleteAll deletes all objects of a kind in all namespaces, and waits until they are gone.
func (c *Cluster) deleteAll(ctx context.Context, list client.ObjectList, within time.Duration) error {
	if err := c.List(ctx, list); err != nil {
		return err
	}
	objects, err := itemsOf(list)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := client.IgnoreNotFound(c.Delete(ctx, obj)); err != nil {
			return err
		}
	}
	for _, obj := range objects {
		if err := c.AwaitGone(ctx, obj, within); err != nil {
			return err
		}
	}
	return nil
}

func itemsOf(list client.ObjectList) ([]client.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	objects := make([]client.Object, len(items))
	for i, item := range items {
		objects[i] = item.(client.Object)
	}
	return objects, nil
}
