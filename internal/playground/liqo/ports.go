package liqo

import (
	"context"
	"fmt"
	"net/http"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
)

// ports that Liqo's processes listen on. The control plane remembers them, because
// some stand in objects of the cluster.
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

// answers probes an HTTP endpoint for 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}
