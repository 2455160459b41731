package uninstall

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// certManagerAnnotation is the key of an annotation that cert-manager sets on every Secret that it
// writes. A Secret without it was created by someone else and must not be deleted.
const certManagerAnnotation = "cert-manager.io/certificate-name"

// Made returns a label selector for the objects that the broker or an agent has created.
func Made() labels.Selector {
	return labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "liqo-resource-broker"})
}

// CertificateRequests returns an empty list of cert-manager's CertificateRequests, for a client to
// fill.
func CertificateRequests() client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequestList"})
	return list
}

// Step is one step of a cleanup.
type Step func(context.Context) error

// Cleanup removes the objects that Helm does not know, after the broker or agent has stopped. If an
// object or a CRD does not exist, this is no error.
type Cleanup struct {
	// Client must read from the API server, without a cache.
	Client client.Client
	// Namespace is the namespace of the Helm release.
	Namespace string
	// Out receives one line for each removed object.
	Out io.Writer
}

// awaitPods waits until the pods of the broker or agent have finished or are gone, because a
// running controller would add its finalizers again. If the selector is empty, it does not wait.
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
			if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
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

// Release returns a step that removes a finalizer from all objects of a kind, in all namespaces. It
// does not delete the objects.
func (c *Cleanup) Release(list client.ObjectList, finalizer string) Step {
	return func(ctx context.Context) error {
		return c.forEach(ctx, list, func(obj client.Object) error {
			before, ok := obj.DeepCopyObject().(client.Object)
			if !ok || !controllerutil.RemoveFinalizer(obj, finalizer) {
				return nil
			}
			// The patch contains the resource version, so that it fails if someone has changed the object meanwhile.
			err := c.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("removing the finalizer from %s: %w", c.describeObject(obj), err)
			}
			return c.printf("removed finalizer %s from %s", finalizer, c.describeObject(obj))
		})
	}
}

// forEach lists the objects of a kind and calls do for each of them. It does nothing if the kind is
// not installed.
func (c *Cleanup) forEach(ctx context.Context, list client.ObjectList, do func(client.Object) error, options ...client.ListOption) error {
	err := c.Client.List(ctx, list, options...)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not a client.Object", item)
		}
		return do(obj)
	})
}

// isAbsent reports whether the error means that the object or its CRD does not exist.
func isAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// Delete returns a step that deletes the object with the given name in the release's namespace, if
// it exists.
func (c *Cleanup) Delete(obj client.Object, name string) Step {
	return func(ctx context.Context) error {
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, obj)
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.deleteObject(ctx, obj)
	}
}

// IsIssued reports whether cert-manager wrote a Secret.
func IsIssued(secret client.Object) bool {
	_, issued := secret.GetAnnotations()[certManagerAnnotation]
	return issued
}

// IsMade reports whether the broker or the agent created a Secret.
func IsMade(secret client.Object) bool { return Made().Matches(labels.Set(secret.GetLabels())) }

// DeleteSecrets returns a step that deletes Secrets with the names <release>-<suffix> if the
// function ours accepts them. Without a release name, the step keeps all Secrets and says so. It
// reads only the metadata of the Secrets, never their content.
func (c *Cleanup) DeleteSecrets(release string, ours func(client.Object) bool, suffixes ...string) Step {
	return func(ctx context.Context) error {
		if release == "" {
			return c.printf("keeping Secrets %q: --name is not set, so their owner is unknown", suffixes)
		}
		for _, suffix := range suffixes {
			secret := &metav1.PartialObjectMetadata{}
			secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: release + "-" + suffix}, secret)
			if err == nil && ours(secret) {
				err = c.deleteObject(ctx, secret)
			}
			if err != nil && !isAbsent(err) {
				return err
			}
		}
		return nil
	}
}

// DeleteAll returns a step that deletes the objects of a kind in the release's namespace that the
// selector matches.
func (c *Cleanup) DeleteAll(list client.ObjectList, with labels.Selector) Step {
	return func(ctx context.Context) error {
		return c.forEach(ctx, list, func(obj client.Object) error { return c.deleteObject(ctx, obj) },
			client.InNamespace(c.Namespace), client.MatchingLabelsSelector{Selector: with})
	}
}

func (c *Cleanup) deleteObject(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", c.describeObject(obj), err)
	}
	return c.printf("deleted %s", c.describeObject(obj))
}

// describeObject returns the kind, namespace and name of an object for messages.
func (c *Cleanup) describeObject(obj client.Object) string {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := apiutil.GVKForObject(obj, c.Client.Scheme()); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj))
}

func (c *Cleanup) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}
