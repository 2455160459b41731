package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// Console configures where the web console is served.
type Console struct {
	// Address is the address to listen on; "0" or "" turns the console off.
	Address string
	// CertDir is the folder with the files tls.crt and tls.key, which are read again when they
	// change.
	CertDir string
	// Actions lets users change objects with their own rights.
	Actions bool
}

// Bind adds the flags for these options.
func (c *Console) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.Address, "console-bind-address", "0", "address of the web console, for example :8446; 0 turns it off")
	fs.StringVar(&c.CertDir, "console-cert-path", c.CertDir, "folder with tls.crt and tls.key of the web console")
	fs.BoolVar(&c.Actions, "console-actions", false, "let users of the web console change objects with their own rights")
}

// Enabled reports whether the console is on.
func (c *Console) Enabled() bool { return c.Address != "0" && c.Address != "" }

// AddTo adds the console to a manager, if it is on. Every replica serves it. If the console is off, informers that only
// it needs are not created.
func (c *Console) AddTo(ctx context.Context, mgr manager.Manager, o console.Options) error {
	if !c.Enabled() {
		return nil
	}
	var err error
	if o.Certificate, err = c.Certificate(mgr.Add); err != nil {
		return err
	}
	o.Address, o.Actions, o.Cache, o.Config, o.Version = c.Address, c.Actions, mgr.GetCache(), mgr.GetConfig(), version.String()
	server, err := console.New(ctx, o)
	if err != nil {
		return err
	}
	return mgr.Add(server)
}

// Certificate returns a function that returns the current certificate in CertDir. It adds the
// watcher of the files to the manager, which runs it on every replica.
func (c *Console) Certificate(add func(manager.Runnable) error) (func() (*tls.Certificate, error), error) {
	if c.CertDir == "" {
		return nil, errors.New("--console-cert-path is missing: give the folder with tls.crt and tls.key, or --console-bind-address=0")
	}
	watcher, err := certwatcher.New(filepath.Join(c.CertDir, pki.CertFile), filepath.Join(c.CertDir, pki.KeyFile))
	if err != nil {
		return nil, fmt.Errorf("--console-cert-path: %w: put %s and %s there, or turn the console off with --console-bind-address=0", err, pki.CertFile, pki.KeyFile)
	}
	if err := add(watcher); err != nil {
		return nil, err
	}
	return func() (*tls.Certificate, error) { return watcher.GetCertificate(nil) }, nil
}
