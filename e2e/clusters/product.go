package clusters

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
)

// Namespace is the namespace of the broker and the agents.
const Namespace = "liqo-resource-broker"

// Names of the releases and of their Deployments.
const (
	BrokerRelease = "broker"
	AgentRelease  = "agent"
	brokerName    = BrokerRelease + "-liqo-resource-broker"
	agentName     = AgentRelease + "-liqo-resource-broker-agent"
)

// Node ports at which the agents reach the broker.
const (
	restPort      = 30443
	enrolmentPort = 30444
)

// carriedTo is the member into which an administrator copies the certificate. The other members
// enrol.
const carriedTo = "paris"

// InstallBroker installs or upgrades the broker.
func (e *Environment) InstallBroker(ctx context.Context, v Version, more values) error {
	broker := e.Cluster(BrokerCluster)
	set := values{
		"image":        e.settings.image("broker", v),
		"service":      values{"type": "NodePort", "nodePorts": values{"rest": restPort, "enrolment": enrolmentPort}},
		"publicURL":    e.brokerURL(),
		"enrolmentURL": fmt.Sprintf("https://%s:%d", broker.Address, enrolmentPort),
		"certificates": values{"agents": []any{values{"clusterID": carriedTo}}},
		"brokerConfig": values{"maxPerReservation": values{"cpu": "64"}},
	}
	maps.Copy(set, more)
	return broker.install(ctx, BrokerRelease, filepath.Join(v.Charts, "broker"), Namespace, set)
}

// InstallAgent installs or upgrades a member's agent.
func (e *Environment) InstallAgent(ctx context.Context, id string, v Version, more values) error {
	member := e.Cluster(id)
	identity, err := e.identity(ctx, member)
	if err != nil {
		return fmt.Errorf("identity of %s: %w", id, err)
	}
	set := values{
		"image":   e.settings.image("agent", v),
		"cluster": values{"id": id, "endpointURL": member.endpoint()},
		"config":  values{"cluster": values{"region": "europe"}},
		// The agent may connect to these node ports of the broker.
		"networkPolicy": values{"brokerPorts": []any{restPort, enrolmentPort}},
	}
	maps.Copy(set, identity)
	maps.Copy(set, more)
	return member.install(ctx, AgentRelease, filepath.Join(v.Charts, "agent"), Namespace, set)
}

func (e *Environment) brokerURL() string {
	return fmt.Sprintf("https://%s:%d", e.Cluster(BrokerCluster).Address, restPort)
}

func (s *Settings) image(name string, v Version) values {
	image := values{"tag": v.Tag}
	if s.Repository != "" {
		image["registry"], image["repository"] = "", s.Repository+"/"+name
	}
	return image
}

// Uninstall uninstalls the agents and then the broker. It fails while capacity is reserved.
func (e *Environment) Uninstall(ctx context.Context) error {
	uninstall := func(name, release string) error {
		_, err := e.Cluster(name).Helm(ctx, nil, "uninstall", release, "--namespace", Namespace, "--wait", "--timeout", "5m")
		return err
	}
	if err := e.eachMember(func(id string) error { return uninstall(id, AgentRelease) }); err != nil {
		return err
	}
	clear(e.identities) // a new broker has other CAs
	return uninstall(BrokerCluster, BrokerRelease)
}

// releases returns the name of the release in each cluster.
func (e *Environment) releases() map[string]string {
	releases := map[string]string{BrokerCluster: BrokerRelease}
	for id := range e.Members {
		releases[id] = AgentRelease
	}
	return releases
}
