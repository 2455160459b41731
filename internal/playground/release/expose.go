package release

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// backend is one port of a Service, together with the pods that serve it.
type backend struct {
	service, port string
	// deployment is the name of the Deployment of these pods, and target is the port of the pods.
	deployment string
	target     intstr.IntOrString
}

// ServicePort returns the loopback port for a port of a Service. It may be called before the release is installed, so
// that the chart's values can contain the port.
func ServicePort(c *controlplane.ControlPlane, release, service, port string) (int, error) {
	return c.Port(release + "/" + service + "/" + port)
}

// exposeServices listens on a local port for each port of the chart's Services that select a Deployment. It makes the
// webhook configurations refer to these ports.
func (r *Release) exposeServices(chart *rendered) error {
	local := map[string]map[int32]int{}
	for _, object := range chart.objects {
		if object.GetKind() != "Service" || object.GroupVersionKind().Group != "" {
			continue
		}
		var s corev1.Service
		if err := convert(object, &s); err != nil {
			return err
		}
		ports, err := r.listen(&s, chart.deployments)
		if err != nil {
			return fmt.Errorf("ports of Service %q: %w", s.Name, err)
		}
		local[s.Name] = ports
	}
	r.ports = local
	return pointWebhooks(chart.objects, local)
}

// listen listens for all ports of a Service that selects a Deployment. It returns the loopback port for each port
// number; none for other Services.
func (r *Release) listen(s *corev1.Service, deployments []appsv1.Deployment) (map[int32]int, error) {
	ports := map[int32]int{}
	for i := range deployments {
		d := &deployments[i]
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			continue
		}
		for _, port := range s.Spec.Ports {
			number, err := ServicePort(r.options.Cluster, r.options.Name, s.Name, port.Name)
			if err != nil {
				return nil, err
			}
			ports[port.Port] = number
			key := backend{service: s.Name, port: port.Name, deployment: d.Name, target: port.TargetPort}
			if r.services[key] != nil {
				continue
			}
			r.services[key] = &service{}
			if err := r.services[key].serve(r.options.Cluster.Lifetime(), fmt.Sprintf("%s:%d", address, number)); err != nil {
				return nil, err
			}
		}
	}
	return ports, nil
}

// connect adds a pod to the Services that select it if joins is true, and otherwise removes it. It skips a Service
// whose port the pod does not have: during an upgrade, the pod or the Service may be an old one. It is an error only if
// the pod joins and the Service belongs to the current chart.
func (r *Release) connect(p *Pod, joins bool) error {
	c, _, err := p.container()
	if err != nil {
		return err
	}
	for key, s := range r.services {
		if p.deployment != key.deployment {
			continue
		}
		port, err := p.portOf(c, key.target)
		if _, exposed := r.ports[key.service]; err != nil && !(joins && exposed) {
			continue
		}
		if err != nil {
			return fmt.Errorf("pods behind Service %q: %w", key.service, err)
		}
		if backend := fmt.Sprintf("%s:%d", address, port); joins {
			s.add(backend)
		} else {
			s.remove(backend)
		}
	}
	return nil
}

// pointWebhooks makes webhook configurations refer to the local listeners. It replaces the port of each webhook, and
// turns its Service into an ExternalName for localhost, because API servers resolve such a Service themselves. They
// verify the certificate against the name of the Service.
func pointWebhooks(objects []manifest.Object, local map[string]map[int32]int) error {
	named := map[string]bool{}
	for _, object := range objects {
		if !isWebhooks(object) {
			continue
		}
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, w := range webhooks {
			name, err := leadOne(w.(map[string]any), local)
			if err != nil {
				return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
			}
			named[name] = true
		}
		if err := unstructured.SetNestedSlice(object.Object, webhooks, "webhooks"); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if object.GetKind() == "Service" && named[object.GetName()] {
			object.Object["spec"] = map[string]any{"type": string(corev1.ServiceTypeExternalName), "externalName": "localhost"}
		}
	}
	return nil
}

func isWebhooks(object manifest.Object) bool {
	return object.GroupVersionKind().Group == admissionv1.GroupName && strings.HasSuffix(object.GetKind(), "WebhookConfiguration")
}

func leadOne(webhook map[string]any, local map[string]map[int32]int) (service string, err error) {
	service, _, err = unstructured.NestedString(webhook, "clientConfig", "service", "name")
	if err != nil {
		return "", err
	}
	port, set, err := unstructured.NestedInt64(webhook, "clientConfig", "service", "port")
	if err != nil {
		return "", err
	}
	if !set {
		port = 443
	}
	number, ok := local[service][int32(port)]
	if !ok {
		return "", fmt.Errorf("webhook %q uses port %d of Service %q, which has no pod of the release", webhook["name"], port, service)
	}
	return service, unstructured.SetNestedField(webhook, int64(number), "clientConfig", "service", "port")
}

// awaitInjected waits until cert-manager has written its CA into the webhook configurations. Until then, every
// request that a webhook covers is refused.
func (r *Release) awaitInjected(ctx context.Context, chart *rendered) error {
	for _, object := range chart.objects {
		if !isWebhooks(object) || !wantsCA(object) {
			continue
		}
		now := object.DeepCopy()
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
			if err := r.client.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
				return false, err
			}
			return hasCA(now), nil
		})
		if err != nil {
			return fmt.Errorf("%s %q waits for cert-manager to write its CA: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func wantsCA(object manifest.Object) bool {
	for name := range object.GetAnnotations() {
		if strings.HasPrefix(name, "cert-manager.io/inject-ca-from") {
			return true
		}
	}
	return false
}

func hasCA(object manifest.Object) bool {
	webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks") // absent webhooks have no CA
	for _, w := range webhooks {
		bundle, _, _ := unstructured.NestedString(w.(map[string]any), "clientConfig", "caBundle")
		if bundle == "" {
			return false
		}
	}
	return len(webhooks) > 0
}
