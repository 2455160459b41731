package app

import (
	"cmp"
	"context"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// addConsole adds the web console, if it is on. Every replica serves it. If the console is off,
// informers that only it needs are not created.
func (a *agent) addConsole(ctx context.Context) error {
	if !a.console.Enabled() {
		return nil
	}
	certificate, err := a.console.Certificate(a.mgr.Add)
	if err != nil {
		return err
	}
	server, err := console.New(ctx, console.Options{
		Address: a.console.Address, Certificate: certificate, Cache: a.mgr.GetCache(), Config: a.mgr.GetConfig(), Member: true,
		Name: cmp.Or(a.clusterName, a.clusterID), Version: version.String(), Actions: a.console.Actions, Now: time.Now, Log: a.log.WithName("console"),
	})
	if err != nil {
		return err
	}
	return a.mgr.Add(server)
}
