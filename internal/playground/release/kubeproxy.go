package release

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// exposeServices listens on a local port for every port of the namespace's Services. It routes connections of the API
// server to the Services' cluster addresses to these ports. It also gives each Service of type LoadBalancer an
// address, as a cloud would.
func (k *Kubelet) exposeServices(ctx context.Context) {
	services, err := k.services.List(labels.Everything())
	if err != nil { // a lister over a cache does not fail
		return
	}
	for _, s := range services {
		for _, port := range s.Spec.Ports {
			if err := k.exposePort(s, port); err != nil {
				continue // clients of the Service fail and report it
			}
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			k.assignAddress(ctx, s)
		}
	}
	k.connectPods()
}

// exposePort listens for one port of a Service, unless it already does.
func (k *Kubelet) exposePort(s *corev1.Service, port corev1.ServicePort) error {
	number, err := ServicePort(k.release.options.Cluster, k.release.options.Name, s.Name, port.Name)
	if err != nil {
		return err
	}
	here := fmt.Sprintf("%s:%d", address, number)
	k.release.options.Cluster.Route(net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port.Port))), here)
	k.mu.Lock()
	defer k.mu.Unlock()
	key := backend{service: s.Name, port: port.Name, target: port.TargetPort}
	if k.backends[key] != nil {
		return nil
	}
	k.backends[key] = &service{}
	return k.backends[key].serve(k.release.options.Cluster.Lifetime(), here)
}

// assignAddress writes the address of a load balancer into the status of a Service.
func (k *Kubelet) assignAddress(ctx context.Context, s *corev1.Service) {
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	// After a conflict, the informer delivers the changed Service, and this function is called again.
	_, _ = k.api.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
}

// connectPods sets the backends of every Service to the Service's ready pods.
func (k *Kubelet) connectPods() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, proxy := range k.backends {
		var pods []string
		if s, err := k.services.Services(k.release.options.Namespace).Get(key.service); err == nil && len(s.Spec.Selector) > 0 {
			pods = k.addressesBehind(labels.SelectorFromSet(s.Spec.Selector), key)
		}
		proxy.setPods(pods)
	}
}

// addressesBehind returns the addresses of the ready pods that a Service selects.
func (k *Kubelet) addressesBehind(selector labels.Selector, key backend) []string {
	var out []string
	for _, s := range k.sandbox {
		if !s.isReady() || !selector.Matches(s.labels) {
			continue
		}
		if port, err := s.portOf(&s.template.Spec.Containers[0], key.target); err == nil {
			out = append(out, fmt.Sprintf("%s:%d", address, port))
		}
	}
	return out
}
