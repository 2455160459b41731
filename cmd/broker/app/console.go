package app

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// addConsole adds the web console, if it is on. Every replica serves it.
func addConsole(ctx context.Context, mgr ctrl.Manager, o *options, log logr.Logger) error {
	if !o.console.Enabled() {
		return nil
	}
	certificate, err := o.console.Certificate(mgr.Add)
	if err != nil {
		return err
	}
	server, err := console.New(ctx, console.Options{
		Address: o.console.Address, Certificate: certificate, Cache: mgr.GetCache(), Config: mgr.GetConfig(), Broker: true,
		Name: "Broker", Version: version.String(), Actions: o.console.Actions, Now: time.Now, Log: log,
	})
	if err != nil {
		return err
	}
	return mgr.Add(server)
}
