package reach

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesThatAreDialled(t *testing.T) {
	const elsewhere, here = "https://rome.example", "https://127.0.0.1:6443"
	for name, tt := range map[string]struct {
		own, endpoint string
		want          string // expected error; "" if dialling is allowed
	}{
		"a public address":                     {endpoint: "https://203.0.113.1"},
		"a private address":                    {endpoint: "https://10.0.0.1:6443"},
		"a public name":                        {endpoint: "https://paris.example"},
		"a unique local address":               {endpoint: "https://[fd00::1]"},
		"this machine":                         {endpoint: "https://127.0.0.1", want: "loopback"},
		"this machine in other words":          {endpoint: "https://127.1.2.3", want: "loopback"},
		"this machine as an IPv6 address":      {endpoint: "https://[::1]", want: "loopback"},
		"this machine within an IPv6 address":  {endpoint: "https://[::ffff:127.0.0.1]", want: "loopback"},
		"this machine behind NAT64":            {endpoint: "https://[64:ff9b::127.0.0.1]", want: "loopback"},
		"this machine behind 6to4":             {endpoint: "https://[2002:7f00:1::]", want: "loopback"},
		"this machine, where all clusters are": {own: here, endpoint: "https://127.0.0.1:7443"},
		"metadata, where all clusters are":     {own: here, endpoint: "https://169.254.169.254", want: "cannot be the address"},
		"metadata":                             {endpoint: "https://169.254.169.254", want: "cannot be the address"},
		"metadata within an IPv6 address":      {endpoint: "https://[::ffff:169.254.169.254]", want: "cannot be the address"},
		"metadata behind NAT64":                {endpoint: "https://[64:ff9b::169.254.169.254]", want: "cannot be the address"},
		"metadata of AWS over IPv6":            {endpoint: "https://[fd00:ec2::254]", want: "cannot be the address"},
		"metadata of Alibaba":                  {endpoint: "https://100.100.100.200", want: "cannot be the address"},
		"metadata of Azure":                    {endpoint: "https://168.63.129.16", want: "cannot be the address"},
		"metadata of Oracle":                   {endpoint: "https://192.0.0.192", want: "cannot be the address"},
		"a link-local address":                 {endpoint: "https://[fe80::1%25eth0]", want: "cannot be the address"},
		"many machines":                        {endpoint: "https://224.0.0.1", want: "cannot be the address"},
		"all machines":                         {endpoint: "https://255.255.255.255", want: "cannot be the address"},
		"no machine":                           {endpoint: "https://0.0.0.0", want: "cannot be the address"},
		"a name of this machine":               {endpoint: "https://here.example", want: `"here.example": 127.0.0.1 is a loopback`},
		"a name of metadata":                   {endpoint: "https://metadata.example", want: "cannot be the address"},
		"a name with one bad address of two":   {endpoint: "https://both.example", want: "cannot be the address"},
		"a name that does not resolve":         {endpoint: "https://unknown.example", want: "no such host"},
		"a name without addresses":             {endpoint: "https://empty.example", want: "resolves to no address"},
		"a number that some resolvers take":    {endpoint: "https://2130706433", want: "no such host"},
		"an address without TLS":               {endpoint: "http://203.0.113.1", want: "https"},
		"an address with a user":               {endpoint: "https://a@203.0.113.1", want: "https"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.own == "" {
				tt.own = elsewhere
			}
			rules := RulesFor(tt.own)
			rules.lookup = func(_ context.Context, _, host string) (ips []netip.Addr, err error) {
				known := map[string]string{
					"paris.example": "203.0.113.1", "here.example": "127.0.0.1", "metadata.example": "169.254.169.254",
					"both.example": "203.0.113.1 169.254.169.254", "empty.example": "",
				}
				addresses, ok := known[host]
				if !ok {
					return nil, errors.New("no such host")
				}
				for a := range strings.FieldsSeq(addresses) {
					ips = append(ips, netip.MustParseAddr(a))
				}
				return ips, nil
			}
			err := rules.CheckEndpoint(t.Context(), tt.endpoint)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
