package liqo

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
)

// ports are the ports on which Liqo's processes listen. The control plane remembers them, because objects in the
// cluster contain some of them.
type ports struct {
	webhook, webhookHealth, webhookMetrics int
	controllerHealth, controllerMetrics    int
	replicatorMetrics                      int
}

func choosePorts(c *controlplane.ControlPlane) (ports, error) {
	var p ports
	for name, port := range map[string]*int{
		"liqo-webhook": &p.webhook, "liqo-webhook-health": &p.webhookHealth, "liqo-webhook-metrics": &p.webhookMetrics,
		"liqo-controller-manager-health": &p.controllerHealth, "liqo-controller-manager-metrics": &p.controllerMetrics,
		"liqo-crd-replicator-metrics": &p.replicatorMetrics,
	} {
		var err error
		if *port, err = c.Port(name); err != nil {
			return p, err
		}
	}
	return p, nil
}
