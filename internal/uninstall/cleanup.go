package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// certManagerAnnotation is on every Secret that cert-manager wrote; others of the
// same name were made by somebody else and are not ours to delete.
const certManagerAnnotation = "cert-manager.io/certificate-name"

// Made selects what a binary of ours made.
func Made() labels.Selector {
	return labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "liqo-resource-broker"})
}

// CertificateRequests are those of cert-manager.
func CertificateRequests() client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequestList"})
	return list
}

// Step is a part of a cleanup.
type Step func(context.Context) error

// Cleanup removes what Helm does not know of, once the controllers are gone. What is
// gone already, and kinds that are not installed, are no errors.
type Cleanup struct {
	// Client of the cluster; it must not cache.
	Client client.Client
	// Namespace of the release.
	Namespace string
	// Out is told what is removed.
	Out io.Writer
}

// awaitPods waits until no pod of the controllers is left: one that still runs would
// set its finalizers again. An empty selector selects none.
func (c *Cleanup) awaitPods(ctx context.Context, selector labels.Selector) error {
	if selector.Empty() {
		return nil
	}
	var left []string
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := c.Client.List(ctx, pods, client.InNamespace(c.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return false, err
		}
		left = left[:0]
		for i := range pods.Items {
			if !finished(&pods.Items[i]) {
				left = append(left, pods.Items[i].Name)
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for pods %q to end: %w", left, err)
	}
	return nil
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Release takes a finalizer off every object of a kind, in all namespaces. The
// objects stay, unless somebody has deleted them already.
func (c *Cleanup) Release(list client.ObjectList, finalizer string) Step {
	return func(ctx context.Context) error {
		return c.each(ctx, list, func(obj client.Object) error {
			if !slices.Contains(obj.GetFinalizers(), finalizer) {
				return nil
			}
			if err := c.release(ctx, obj, finalizer); err != nil {
				return err
			}
			return c.say("finalizer %s taken off %s", finalizer, c.name(obj))
		})
	}
}

// DeletePods deletes the pods of the release's namespace that carry a label.
func (c *Cleanup) DeletePods(label string) Step {
	return func(ctx context.Context) error {
		return c.each(ctx, &corev1.PodList{}, func(pod client.Object) error {
			if err := client.IgnoreNotFound(c.Client.Delete(ctx, pod)); err != nil {
				return fmt.Errorf("deleting %s: %w", c.name(pod), err)
			}
			return c.say("%s deleted", c.name(pod))
		}, client.InNamespace(c.Namespace), client.HasLabels{label})
	}
}

// each lists a kind and calls do for every object.
func (c *Cleanup) each(ctx context.Context, list client.ObjectList, do func(client.Object) error, options ...client.ListOption) error {
	err := c.Client.List(ctx, list, options...)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		return do(obj)
	})
}

// absent says that an object or its kind is not there.
func absent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// release writes the other finalizers, if they are still those that were read.
func (c *Cleanup) release(ctx context.Context, obj client.Object, finalizer string) error {
	left := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "finalizers": left,
	}})
	if err != nil {
		return err
	}
	err = c.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking the finalizer off %s: %w", c.name(obj), err)
	}
	return nil
}

// Delete removes one object of the release's namespace.
func (c *Cleanup) Delete(obj client.Object, name string) Step {
	return func(ctx context.Context) error {
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, obj)
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.delete(ctx, obj)
	}
}

// DeleteIssued removes the Secrets <release>-<suffix> that cert-manager filled.
// Others of such a name are somebody else's.
func (c *Cleanup) DeleteIssued(release string, suffixes ...string) Step {
	return c.deleteSecrets(release, suffixes, func(secret client.Object) bool {
		_, issued := secret.GetAnnotations()[certManagerAnnotation]
		return issued
	})
}

// DeleteMade removes the Secrets <release>-<suffix> that a binary of ours made.
func (c *Cleanup) DeleteMade(release string, suffixes ...string) Step {
	return c.deleteSecrets(release, suffixes, func(secret client.Object) bool {
		return Made().Matches(labels.Set(secret.GetLabels()))
	})
}

// deleteSecrets reads no Secret's content.
func (c *Cleanup) deleteSecrets(release string, suffixes []string, ours func(client.Object) bool) Step {
	return func(ctx context.Context) error {
		if release == "" {
			return c.say("Secrets %q are kept: --name does not tell whose they are", suffixes)
		}
		for _, suffix := range suffixes {
			secret := &metav1.PartialObjectMetadata{}
			secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: release + "-" + suffix}, secret)
			if err == nil && ours(secret) {
				err = c.delete(ctx, secret)
			}
			if err != nil && !absent(err) {
				return err
			}
		}
		return nil
	}
}

// DeleteAll removes the objects of a kind in the release's namespace that have the
// labels.
func (c *Cleanup) DeleteAll(list client.ObjectList, with labels.Selector) Step {
	return func(ctx context.Context) error {
		return c.each(ctx, list, func(obj client.Object) error { return c.delete(ctx, obj) },
			client.InNamespace(c.Namespace), client.MatchingLabelsSelector{Selector: with})
	}
}

func (c *Cleanup) delete(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", c.name(obj), err)
	}
	return c.say("%s deleted", c.name(obj))
}

// name of an object for people.
func (c *Cleanup) name(obj client.Object) string {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := apiutil.GVKForObject(obj, c.Client.Scheme()); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj))
}

func (c *Cleanup) say(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}
