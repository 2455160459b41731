package liqo

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
)

// release is the result of rendering the chart: the objects to apply, and the Deployments whose pods processes
// replace.
type release struct {
	crds, objects []*unstructured.Unstructured
	deployments   []appsv1.Deployment
}

// settings are the chart values that differ between clusters.
type settings struct {
	clusterID, apiURL    string
	podCIDR, serviceCIDR string
	labels               map[string]string
	ports                ports
}

func (c Cluster) settings(p ports) settings {
	return settings{
		clusterID: c.Name(), apiURL: c.URL(), podCIDR: c.PodCIDR, serviceCIDR: c.ServiceCIDR, labels: c.Labels, ports: p,
	}
}

// values returns the values for Liqo's chart. They turn on only authentication and offloading.
func (s settings) values() map[string]any {
	p := s.ports
	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	off := map[string]any{"enabled": false}
	labels := map[string]any{}
	for k, v := range s.labels {
		labels[k] = v
	}
	return map[string]any{
		"tag":        Version,
		"apiServer":  map[string]any{"address": s.apiURL},
		"discovery":  map[string]any{"config": map[string]any{"clusterID": s.clusterID, "clusterLabels": labels}},
		"networking": map[string]any{"enabled": false, "reflectIPs": false},
		"storage":    off, "proxy": off, "metricAgent": off, "telemetry": off,
		"ipam": map[string]any{"podCIDR": s.podCIDR, "serviceCIDR": s.serviceCIDR},
		// The virtual kubelet requests no certificate, and it does not copy the ServiceAccount tokens of the consumer.
		"virtualKubelet": map[string]any{"extra": map[string]any{"args": []any{"--certificate-type=self-signed", "--enable-apiserver-support=false"}}},
		"controllerManager": map[string]any{
			// Without these limits, Liqo's quota would not count a pod without requests.
			"config": map[string]any{"defaultLimitsEnforcement": "Hard"},
			"pod": map[string]any{"extraArgs": []any{
				"--metrics-address=" + local(p.controllerMetrics), "--health-probe-address=" + local(p.controllerHealth)}}},
		"webhook": map[string]any{"port": p.webhook, "pod": map[string]any{"extraArgs": []any{
			"--metrics-address=" + local(p.webhookMetrics), "--health-probe-address=" + local(p.webhookHealth)}}},
		"crdReplicator": map[string]any{"pod": map[string]any{"extraArgs": []any{"--metrics-address=" + local(p.replicatorMetrics)}}},
	}
}

// renderChart renders Liqo's chart in a folder. It returns an error if the folder contains another chart.
func renderChart(folder string, s settings) (*release, error) {
	loaded, err := chart.LoadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("chart of Liqo in %q: %w", folder, err)
	}
	rendered, err := chart.Render(loaded, chart.Release{Name: "liqo", Namespace: Namespace, Values: s.values()})
	if err != nil {
		return nil, err
	}
	r := &release{crds: rendered.CRDs}
	for _, obj := range rendered.Objects {
		if err := r.add(obj); err != nil {
			return nil, fmt.Errorf("%s %q of Liqo's chart: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	if len(r.crds) == 0 || len(r.deployments) == 0 {
		return nil, fmt.Errorf("chart %q renders %d CRDs and %d Deployments: it is not Liqo's", folder, len(r.crds), len(r.deployments))
	}
	return r, nil
}

// add adds one object of the chart to the release. It leaves out objects that need a kubelet or the networking module.
func (r *release) add(obj *unstructured.Unstructured) error {
	switch obj.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &d); err != nil {
			return err
		}
		r.deployments = append(r.deployments, d)
		return r.addWithoutPods(obj)
	case "Network", "FirewallConfiguration", "CronJob", "DaemonSet":
		// The chart contains objects of the networking module even if this module is off.
	default:
		r.objects = append(r.objects, obj)
	}
	return nil
}

// addWithoutPods adds a Deployment with zero replicas. Agents read Liqo's version, settings and API server address
// from it.
func (r *release) addWithoutPods(deployment *unstructured.Unstructured) error {
	r.objects = append(r.objects, deployment)
	return unstructured.SetNestedField(deployment.Object, int64(0), "spec", "replicas")
}

// prepare changes the objects that would need pods: the webhook's Service, which gets a local address, and the
// Secret with the webhook's certificate.
func (r *release) prepare(c Cluster, p ports) error {
	for _, obj := range r.objects {
		switch {
		case obj.GetKind() == "Service" && obj.GetName() == webhookService:
			pointToWebhook(obj, p.webhook)
		case obj.GetKind() == "Secret" && obj.GetName() == webhookSecret:
			if err := c.fillCertificate(obj); err != nil {
				return fmt.Errorf("certificate of Liqo's webhook: %w", err)
			}
		}
	}
	return nil
}

// expandVariables replaces $(NAME) by the value of the variable, as a kubelet does.
func expandVariables(text string, env map[string]string) string {
	for name, value := range env {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}
