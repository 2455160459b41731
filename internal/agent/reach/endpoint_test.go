package reach

import (
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	const flag, liqoAddress, host, pods = "https://flag:6443", "https://liqo:6443", "https://host:6443", "https://10.96.0.1:443"
	cases := map[string]struct {
		flag, liqoAddress, host string
		want, refused           string
		says                    string
	}{
		"the flag":                          {flag: flag, host: host, want: flag},
		"the flag before Liqo's":            {flag: flag, liqoAddress: liqoAddress, host: host, want: flag, says: "set both to the same address"},
		"the flag, as Liqo has it":          {flag: liqoAddress, liqoAddress: liqoAddress + "/", host: host, want: liqoAddress},
		"Liqo's before the kubeconfig":      {liqoAddress: liqoAddress, host: host, want: liqoAddress},
		"Liqo's in a pod":                   {liqoAddress: liqoAddress, host: pods, want: liqoAddress},
		"the kubeconfig's":                  {host: host, want: host},
		"none in a pod":                     {host: pods, says: "advertising no endpoint"},
		"one with a path":                   {flag: flag + "/k8s/clusters/c-1", want: flag + "/k8s/clusters/c-1"},
		"a flag without https":              {flag: "http://flag", refused: "--endpoint-url is not the https address of an API server"},
		"a flag without a host":             {flag: "https://:6443", refused: "--endpoint-url"},
		"a flag with a port too large":      {flag: flag[:len(flag)-4] + "99999", refused: "a port up to 65535"},
		"a flag with a query":               {flag: flag + "/?a=b", refused: "--endpoint-url"},
		"a flag with a credential":          {flag: "https://admin:secret@flag", refused: "without user"},
		"a kubeconfig without https":        {host: "http://127.0.0.1:8001", refused: "the kubeconfig is not the https address of an API server"},
		"an address of Liqo's that is none": {liqoAddress: "https://", host: host, refused: "apiServer.address of Liqo's chart"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, said, err := ChooseEndpoint(tc.flag, tc.liqoAddress, tc.host)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want a refusal that names %q", err, tc.refused)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
			if !strings.Contains(said, tc.says) || tc.says == "" && said != "" {
				t.Errorf("it says %q, want %q", said, tc.says)
			}
		})
	}
}
