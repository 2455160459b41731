package product

import (
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
)

// trustDomain is the trust domain of the agents' certificates.
const trustDomain = "playground.local"

// Carried is the name of the Secret that an administrator copies into a cluster that does not enrol.
const Carried = "broker-credentials"

// plainMetrics are the values of metrics that anyone on this machine may scrape.
var plainMetrics = map[string]any{"secure": false}

// brokerValues returns the values of the broker's chart.
func (p *Product) brokerValues() (map[string]any, error) {
	rest, err := p.brokerURL("rest")
	if err != nil {
		return nil, err
	}
	enrolment, err := p.brokerURL("enrolment")
	if err != nil {
		return nil, err
	}
	agents := []any{}
	for _, m := range p.options.Members {
		if m.Carried {
			agents = append(agents, map[string]any{"clusterID": m.Name()})
		}
	}
	return map[string]any{
		"fullnameOverride": brokerName,
		"replicaCount":     2,
		"log":              map[string]any{"format": "console"},
		"publicURL":        rest, "enrolmentURL": enrolment,
		"certificates": map[string]any{"trustDomain": trustDomain, "agents": agents},
		"metrics":      plainMetrics,
	}, nil
}

// brokerURL returns the address of a port of the broker's Service.
func (p *Product) brokerURL(port string) (string, error) {
	number, err := release.ServicePort(p.options.Broker, brokerName, brokerName, port)
	return fmt.Sprintf("https://127.0.0.1:%d", number), err
}

// agentValues returns the chart values for the agent of a member, without credentials. The agent reads the address
// of the cluster's API server from Liqo.
func agentValues(m Member) map[string]any {
	return map[string]any{
		"fullnameOverride": agentName,
		"log":              map[string]any{"format": "console"},
		"cluster":          map[string]any{"id": m.Name()},
		"config":           map[string]any{"cluster": map[string]any{"region": m.Region, "zone": m.Zone}},
		"metrics":          plainMetrics,
	}
}
