package playground

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// certManagerChart returns cert-manager's own chart.
func certManagerChart(ctx context.Context, tools *toolchain.Toolchain) (fs.FS, error) {
	dir, err := tools.ModuleDir(ctx, toolchain.CertManager.Module, "github.com/cert-manager/cert-manager")
	return os.DirFS(filepath.Join(dir, "deploy", "charts", "cert-manager")), err
}

// startCertManager installs cert-manager. It returns once cert-manager issues certificates.
func (c *Cluster) startCertManager(ctx context.Context, chart fs.FS, tools *toolchain.Toolchain, o Options) error {
	defer o.Progress.Begin(c.Name() + ": cert-manager")()
	binary := tools.Path(toolchain.CertManager)
	installed, err := release.New(release.Options{
		Cluster: c.ControlPlane, Chart: chart, Name: "cert-manager", Namespace: "cert-manager",
		Programs: map[string]release.Program{
			"cert-manager-controller": {Path: binary, Args: []string{"controller"}},
			"cert-manager-cainjector": {Path: binary, Args: []string{"cainjector"}},
			"cert-manager-webhook":    {Path: binary, Args: []string{"webhook"}},
		},
	})
	if err != nil {
		return err
	}
	off := map[string]any{"enabled": false}
	return installed.Apply(ctx, map[string]any{
		"crds": map[string]any{"enabled": true, "keep": false}, "prometheus": off, "startupapicheck": off,
		"extraArgs": []any{
			"--internal-healthz-listen-address=:9403",
			// Retry a failed request after one second. The default of one hour is meant to spare
			// public authorities.
			"--certificate-request-minimum-backoff-duration=1s",
		},
		"webhook": map[string]any{"extraArgs": []any{"--healthz-port=6080"}},
	})
}
