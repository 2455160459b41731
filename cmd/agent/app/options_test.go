package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestErrorNamesTheWrongFlag(t *testing.T) {
	working := []string{"--broker-url=https://broker:8443", "--broker-cert-path=/certs"}
	enrolling := []string{
		"--identity-secret=agent-identity", "--broker-cert-path=/certs",
		"--enrolment-url=https://broker:8444", "--enrolment-ca-hash=sha256:" + strings.Repeat("0", 64),
	}
	// earlier is the command line, as in docs/upgrade.md, of an agent of an earlier release, which called the broker
	// through the API server of its cluster.
	earlier := []string{
		"--broker-kubeconfig=/kubeconfig", "--advertisement-name=cluster-advertisement", "--advertisement-namespace=default",
		"--cluster-id=rome", "--broker-namespace=default", "--instruction-namespace=default",
	}
	t.Setenv("POD_NAMESPACE", "liqo-resource-broker")
	t.Setenv("TEST_TOKEN", "token")
	tests := map[string]struct {
		args []string
		want string
	}{
		"working": {args: working},
		"an earlier one over HTTP": {args: append([]string{
			"--broker-transport=http", "--cluster-id=rome", "--kubeconfigs-dir=/kubeconfigs",
			"--advertisement-requeue-interval=30s", "--instruction-poll-interval=5s",
		}, working...)},
		"an earlier one":                 {args: earlier, want: "--broker-cert-path is missing"},
		"an earlier one, completed":      {args: append([]string{"--broker-cert-path=/certs", "--identity-secret=agent-identity"}, earlier...)},
		"no broker":                      {args: []string{"--broker-cert-path=/certs"}, want: "--broker-url"},
		"no certificates":                {args: []string{"--broker-url=https://broker:8443"}, want: "--broker-cert-path"},
		"an enrolment":                   {args: enrolling},
		"an enrolment that is over":      {args: []string{"--broker-cert-path=/certs", "--identity-secret=agent-identity"}},
		"an enrolment without a secret":  {args: append([]string{"--broker-url=https://broker:8443"}, enrolling[1:]...), want: "--identity-secret"},
		"an enrolment without a hash":    {args: enrolling[:3], want: "--enrolment-ca-hash"},
		"a token without a URL":          {args: append([]string{"--enrolment-token=env:TEST_TOKEN"}, enrolling[:2]...), want: "--enrolment-url"},
		"a token that others can read":   {args: append([]string{"--enrolment-token=x"}, enrolling...), want: "@FILE"},
		"an unknown transport":           {args: append([]string{"--broker-transport=mqtt"}, working...), want: `"mqtt"`},
		"through an API server":          {args: []string{"--broker-kubeconfig=/kubeconfig", "--broker-cert-path=/certs"}},
		"through which API server":       {args: []string{"--broker-transport=kubernetes", "--broker-cert-path=/certs"}, want: "--broker-kubeconfig is missing"},
		"two ways to one broker":         {args: append([]string{"--broker-kubeconfig=/kubeconfig"}, working...), want: "leave one out"},
		"node labels":                    {args: append([]string{"--node-labels=nvidia.com/gpu.product"}, working...)},
		"a label of nodes that is none":  {args: append([]string{"--node-labels=a b"}, working...), want: "--node-labels"},
		"an unknown mode":                {args: append([]string{"--peering-mode=magic"}, working...), want: `"magic"`},
		"kubeconfigs that are missing":   {args: append([]string{"--peering-mode=kubeconfig"}, working...), want: "--kubeconfigs-dir is missing"},
		"kubeconfigs without their mode": {args: append([]string{"--peering-mode=brokered", "--kubeconfigs-dir=/etc"}, working...), want: "--kubeconfigs-dir is not read"},
		"kubeconfigs alone":              {args: append([]string{"--kubeconfigs-dir=/etc"}, working...)},
		"an unknown way to hold":         {args: append([]string{"--hold=Both"}, working...), want: `"Both"`},
		"placeholders of no priority":    {args: append([]string{"--hold=Placeholder"}, working...), want: "--placeholder-priority-class"},
		"placeholders without an image":  {args: append([]string{"--hold=Placeholder", "--placeholder-priority-class=p", "--placeholder-image="}, working...), want: "--placeholder-image"},
		"placeholders":                   {args: append([]string{"--hold=Placeholder", "--placeholder-priority-class=p"}, working...)},
		"networks":                       {args: append([]string{"--networking=enabled", "--gateway-service-type=NodePort"}, working...)},
		"an unknown way to networks":     {args: append([]string{"--networking=on"}, working...), want: `"on"`},
		"networks without peering":       {args: append([]string{"--networking=enabled", "--peering-mode=none"}, working...), want: "--networking=enabled"},
		"an unknown Service":             {args: append([]string{"--gateway-service-type=ExternalName"}, working...), want: `"ExternalName"`},
		"limits of objects":              {args: append([]string{"--offloaded-object-limits=count/configmaps=100,requests.storage=1Ti", "--tenant-object-limits=count/secrets=9"}, working...)},
		"a limit that is none":           {args: append([]string{"--offloaded-object-limits=count/configmaps=many"}, working...), want: `--offloaded-object-limits: count/configmaps="many" is not an amount`},
		"a limit below nothing":          {args: append([]string{"--tenant-object-limits=count/secrets=-1"}, working...), want: "--tenant-object-limits"},
		"an interval too short":          {args: append([]string{"--advertisement-requeue-interval=1ms"}, working...), want: "--advertisement-requeue-interval"},
		"a poll too often":               {args: append([]string{"--instruction-poll-interval=1ms"}, working...), want: "--instruction-poll-interval"},
		"a notice of less than nothing":  {args: append([]string{"--expiry-notice=-1s"}, working...), want: "--expiry-notice"},
		"certificates for too short":     {args: append([]string{"--peer-certificate-lifetime=9m"}, working...), want: "--peer-certificate-lifetime: 9m0s is not between"},
		"certificates for too long":      {args: append([]string{"--peer-certificate-lifetime=8761h"}, working...), want: "--peer-certificate-lifetime"},
		"a drain of less than nothing":   {args: append([]string{"--drain-timeout=-1s"}, working...), want: "--drain-timeout"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := defaultOptions()
			cmd := Command()
			cmd.ResetFlags()
			o.bindFlags(cmd.Flags())
			runtest.Check(t, cmd.ParseFlags(test.args))
			err := o.completeOptions()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that names %q", err, test.want)
			}
		})
	}
}

func TestEnrolledAgentKnowsItsNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	o := defaultOptions()
	o.certPath, o.identitySecret = "/certs", "agent-identity"
	if err := o.completeOptions(); err == nil || !strings.Contains(err.Error(), "POD_NAMESPACE") {
		t.Errorf("got %v, want an error that names POD_NAMESPACE", err)
	}
}

// TestEnrolmentTokenIsReadFromFileOrVariable reads the token from a file or a variable. A missing
// file means no token.
func TestEnrolmentTokenIsReadFromFileOrVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	runtest.Check(t, os.WriteFile(file, []byte("of a file\n"), 0o600))
	t.Setenv("TEST_TOKEN", "of a variable")
	for place, want := range map[string]string{
		"": "", "@" + file: "of a file", "env:TEST_TOKEN": "of a variable",
		"@" + file + ".gone": "", "env:TEST_TOKEN_GONE": "",
	} {
		o := defaultOptions()
		o.certPath, o.identitySecret, o.podNamespace = "/certs", "agent-identity", "default"
		o.enrolmentURL, o.enrolmentCAHashes, o.enrolmentToken = "https://broker:8444", []string{"sha256:x"}, place
		if err := o.completeOptions(); err != nil || o.enrolmentToken != want {
			t.Errorf("%q: got token %q, error %v, want %q", place, o.enrolmentToken, err, want)
		}
	}
}

func TestWarnsWhenReclaimTimeoutIsShorterThanDrainTimeout(t *testing.T) {
	tests := map[string]struct {
		reclaim, drain time.Duration
		warns          bool
	}{
		"longer":   {reclaim: 10 * time.Minute, drain: 5 * time.Minute},
		"the same": {reclaim: 5 * time.Minute, drain: 5 * time.Minute, warns: true},
		"shorter":  {reclaim: time.Second, drain: 5 * time.Minute, warns: true},
		"no limit": {drain: 5 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := options{reclaimTimeout: test.reclaim, drainTimeout: test.drain}
			if why := o.reclaimWarning(); (why != "") != test.warns {
				t.Errorf("got %q, want a warning: %t", why, test.warns)
			}
		})
	}
	if why := defaultOptions().reclaimWarning(); why != "" {
		t.Errorf("the defaults: %s", why)
	}
}
