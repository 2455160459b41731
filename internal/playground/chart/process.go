package chart

import (
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
)

var on, off = map[string]any{"enabled": true}, map[string]any{"enabled": false}

// BrokerForProcess renders the broker's chart for a cluster in which the broker runs as a local process. It contains
// CRDs, rights and policies, but no pods, certificates and webhooks. The names of the objects begin with name. The
// agents of the given clusters may also reach the broker through the API server.
func BrokerForProcess(name, namespace string, clusters ...string) ([]*unstructured.Unstructured, error) {
	mailboxes := []any{}
	for _, id := range clusters {
		mailboxes = append(mailboxes, map[string]any{"clusterID": id})
	}
	return forProcess(charts.Broker(), name, namespace, map[string]any{
		"mailboxes":    map[string]any{"clusters": mailboxes},
		"certificates": withoutCertManager("tls", "agentsCA"),
		"enrolment":    off,
		// The broker may read the Secret "notifications".
		"notifications": map[string]any{"secrets": []any{"notifications"}, "loopback": true},
	})
}

// BrokerWithConsole is BrokerForProcess for a broker that serves the web console.
func BrokerWithConsole(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Broker(), name, namespace, map[string]any{
		"certificates": withoutCertManager("tls", "agentsCA", "console"),
		"enrolment":    off, "console": on,
	})
}

// AgentForProcess renders the agent's chart for an agent that runs as a local process.
func AgentForProcess(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Agent(), name, namespace, map[string]any{"certificates": withoutCertManager()})
}

// AgentWithProvisioning is AgentForProcess for an agent that serves ProvisioningRequests.
func AgentWithProvisioning(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Agent(), name, namespace, map[string]any{
		"certificates": withoutCertManager(), "autoscaling": map[string]any{"provisioningRequests": on},
	})
}

// AgentWithBuffers is AgentForProcess for an agent that serves CapacityBuffers.
func AgentWithBuffers(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Agent(), name, namespace, map[string]any{
		"certificates": withoutCertManager(), "autoscaling": map[string]any{"capacityBuffers": on},
	})
}

// AgentWithBursts is AgentForProcess for an agent that serves BurstPolicies.
func AgentWithBursts(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Agent(), name, namespace, map[string]any{
		"certificates": withoutCertManager(), "autoscaling": map[string]any{"burstPolicies": on},
	})
}

// AgentWithConsole is AgentForProcess for an agent that serves the web console.
func AgentWithConsole(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Agent(), name, namespace, map[string]any{"certificates": withoutCertManager("console"), "console": on})
}

// withoutCertManager returns the chart's value "certificates" for a process whose certificates are not in Secrets.
// existing are the keys of certificates.existing that the chart requires.
func withoutCertManager(existing ...string) map[string]any {
	secrets := map[string]any{}
	for _, key := range existing {
		secrets[key] = "none"
	}
	return map[string]any{"certManager": off, "existing": secrets}
}

func forProcess(files fs.FS, name, namespace string, values map[string]any) ([]*unstructured.Unstructured, error) {
	values["fullnameOverride"], values["webhook"], values["metrics"] = name, off, off
	loaded, err := LoadFS(files)
	if err != nil {
		return nil, err
	}
	rendered, err := Render(loaded, Release{Name: name, Namespace: namespace, Values: values})
	if err != nil {
		return nil, err
	}
	withoutPods := slices.DeleteFunc(rendered.Objects, func(obj *unstructured.Unstructured) bool {
		return obj.GetKind() == "Deployment"
	})
	return slices.Concat(rendered.CRDs, withoutPods), nil
}
