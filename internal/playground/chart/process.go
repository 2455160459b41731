package chart

import (
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
)

var off = map[string]any{"enabled": false}

// BrokerForProcess renders the broker's chart for a cluster in which the broker runs as a local process: CRDs, rights
// and policies, without pods, certificates and webhooks. Names of objects begin with name. The agents of clusters may
// also reach the broker through the API server.
func BrokerForProcess(name, namespace string, clusters ...string) ([]*unstructured.Unstructured, error) {
	mailboxes := []any{}
	for _, id := range clusters {
		mailboxes = append(mailboxes, map[string]any{"clusterID": id})
	}
	return forProcess(charts.Broker(), Release{Name: name, Namespace: namespace, Values: map[string]any{
		"fullnameOverride": name, "mailboxes": map[string]any{"clusters": mailboxes},
		"certificates": map[string]any{"certManager": off, "existing": map[string]any{"tls": "none", "agentsCA": "none"}},
		"enrolment":    off, "webhook": off,
	}})
}

// AgentForProcess renders the agent's chart for an agent that runs as a local process.
func AgentForProcess(name, namespace string) ([]*unstructured.Unstructured, error) {
	return forProcess(charts.Agent(), Release{Name: name, Namespace: namespace, Values: map[string]any{
		"fullnameOverride": name,
		"certificates":     map[string]any{"certManager": off},
		"webhook":          off,
	}})
}

func forProcess(files fs.FS, r Release) ([]*unstructured.Unstructured, error) {
	loaded, err := LoadFS(files)
	if err != nil {
		return nil, err
	}
	rendered, err := Render(loaded, r)
	if err != nil {
		return nil, err
	}
	withoutPods := slices.DeleteFunc(rendered.Objects, func(obj *unstructured.Unstructured) bool {
		return obj.GetKind() == "Deployment"
	})
	return slices.Concat(rendered.CRDs, withoutPods), nil
}
