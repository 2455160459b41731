package app

import (
	"strings"
	"testing"
)

func TestWrongFlagsAreNamed(t *testing.T) {
	working := []string{"--broker-url=https://broker:8443", "--broker-cert-path=/certs"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"working":                       {args: working},
		"no broker":                     {args: []string{"--broker-cert-path=/certs"}, want: "--broker-url"},
		"no certificates":               {args: []string{"--broker-url=https://broker:8443"}, want: "--broker-cert-path"},
		"an unknown transport":          {args: append([]string{"--broker-transport=mqtt"}, working...), want: `"mqtt"`},
		"the transport that is missing": {args: []string{"--broker-kubeconfig=/kubeconfig"}, want: "--broker-url"},
		"an unknown mode":               {args: append([]string{"--peering-mode=magic"}, working...), want: `"magic"`},
		"an interval too short":         {args: append([]string{"--advertisement-requeue-interval=1ms"}, working...), want: "--advertisement-requeue-interval"},
		"a poll too often":              {args: append([]string{"--instruction-poll-interval=1ms"}, working...), want: "--instruction-poll-interval"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := defaults()
			cmd := Command()
			cmd.ResetFlags()
			o.bind(cmd.Flags())
			if err := cmd.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			err := o.complete()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that names %q", err, test.want)
			}
		})
	}
}
