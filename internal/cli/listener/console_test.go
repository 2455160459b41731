package listener

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestConsoleIsOffUnlessItHasAnAddress(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		on   bool
	}{
		"by default":      {nil, false},
		"turned off":      {[]string{"--console-bind-address=0"}, false},
		"an empty one":    {[]string{"--console-bind-address="}, false},
		"with an address": {[]string{"--console-bind-address=:8446"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var c Console
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			c.Bind(fs)
			runtest.Check(t, fs.Parse(test.args))
			if c.Enabled() != test.on {
				t.Errorf("on: %t, want %t", c.Enabled(), test.on)
			}
		})
	}
}

func TestConsoleWithoutCertificateNamesTheFlag(t *testing.T) {
	for name, test := range map[string]struct{ dir, want string }{
		"no folder":       {"", "--console-cert-path is missing: give the folder with tls.crt and tls.key, or --console-bind-address=0"},
		"an empty folder": {t.TempDir(), "put tls.crt and tls.key there"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Console{Address: ":8446", CertDir: test.dir}
			_, err := c.Certificate(func(manager.Runnable) error { return nil })
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func TestConsoleFollowsItsCertificate(t *testing.T) {
	authority, c := pkitest.New(t, "servers", time.Now()), Console{Address: ":8446", CertDir: t.TempDir()}
	save := func(name string) {
		pair, err := authority.IssueServer([]string{name}, nil)
		runtest.Check(t, err)
		runtest.Check(t, pkitest.Save(c.CertDir, pair, authority.CertPEM(), authority.CertPEM()))
	}
	save("first")
	current, err := c.Certificate(func(watcher manager.Runnable) error {
		runtest.Start(t, watcher)
		return nil
	})
	runtest.Check(t, err)
	isFor := func(name string) bool {
		certificate, err := current()
		return err == nil && certificate.Leaf.VerifyHostname(name) == nil
	}
	if !isFor("first") {
		t.Error("it does not serve the certificate in its folder")
	}
	save("second")
	runtest.Await(t, "the new certificate", func() bool { return isFor("second") })
}
