package clusters

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// installCertManager installs cert-manager with its own chart. In the Go module, only the version of the chart is
// missing.
func (c *Cluster) installCertManager(ctx context.Context) error {
	const module = "github.com/cert-manager/cert-manager"
	source, err := c.settings.tools.ModuleDir(ctx, toolchain.CertManager.Module, module)
	if err != nil {
		return err
	}
	version, err := c.settings.tools.ModuleVersion(ctx, toolchain.CertManager.Module, module)
	if err != nil {
		return err
	}
	chart, err := os.MkdirTemp("", "cert-manager")
	if err != nil {
		return err
	}
	defer os.RemoveAll(chart) //nolint:errcheck // at worst a temporary folder is left
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(source, "deploy", "charts", "cert-manager"))); err != nil {
		return err
	}
	description, err := os.ReadFile(filepath.Join(chart, "Chart.template.yaml"))
	if err != nil {
		return err
	}
	description = bytes.ReplaceAll(description, []byte("v0.0.0"), []byte(version))
	if err := os.WriteFile(filepath.Join(chart, "Chart.yaml"), description, 0o600); err != nil {
		return err
	}
	return c.install(ctx, "cert-manager", chart, "cert-manager", values{
		"crds": values{"enabled": true}, "startupapicheck": values{"enabled": false}, "prometheus": values{"enabled": false},
	})
}

// installLiqo installs Liqo with its own chart. It leaves out Liqo's networking, which needs WireGuard and GENEVE
// in the kernel.
func (c *Cluster) installLiqo(ctx context.Context) error {
	const module = "github.com/liqotech/liqo"
	source, err := c.settings.tools.ModuleDir(ctx, toolchain.Liqoctl.Module, module)
	if err != nil {
		return err
	}
	version, err := c.settings.tools.ModuleVersion(ctx, toolchain.Liqoctl.Module, module)
	if err != nil {
		return err
	}
	off := values{"enabled": false}
	return c.install(ctx, "liqo", filepath.Join(source, "deployments", "liqo"), "liqo", values{
		"tag":        version,
		"apiServer":  values{"address": c.endpoint()},
		"discovery":  values{"config": values{"clusterID": c.Name}},
		"networking": values{"enabled": false, "reflectIPs": false},
		// Without these limits, Liqo's quota would not count a pod without requests.
		"controllerManager": values{"config": values{"defaultLimitsEnforcement": "Hard"}},
		"storage":           off, "proxy": off, "metricAgent": off, "telemetry": off,
		// The chart requires these values. Without networking, they have no effect.
		"ipam": values{"podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16"},
	})
}

// endpoint returns the address at which other clusters reach this cluster's API server.
func (c *Cluster) endpoint() string { return fmt.Sprintf("https://%s:6443", c.Address) }
