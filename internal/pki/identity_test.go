package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestClusterID(t *testing.T) {
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cases := map[string]struct {
		cn    string
		uris  []string
		usage []x509.ExtKeyUsage
		edit  func(*x509.Certificate)
		want  string
	}{
		"a common name is enough":                        {cn: "rome", usage: client, want: "rome"},
		"one letter is a valid name":                     {cn: "r", usage: client, want: "r"},
		"digits and dashes are accepted":                 {cn: "1-rome-2", usage: client, want: "1-rome-2"},
		"forty characters are accepted":                  {cn: strings.Repeat("a", 40), usage: client, want: strings.Repeat("a", 40)},
		"the user of another cluster's slice":            {cn: "res-aaaaaaaaaa-1-a8a4c692b93b", usage: client},
		"forty-one characters are refused":               {cn: strings.Repeat("a", 41), usage: client},
		"a matching URI is accepted":                     {cn: "rome", uris: []string{"spiffe://fluidos.eu/cluster/rome"}, usage: client, want: "rome"},
		"any trust domain is accepted":                   {cn: "rome", uris: []string{"spiffe://x/cluster/rome"}, usage: client, want: "rome"},
		"further usages beside client auth are accepted": {cn: "rome", usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, want: "rome"},
		"an organisation is ignored":                     {cn: "rome", usage: client, edit: func(c *x509.Certificate) { c.Subject.Organization = []string{"paris"} }, want: "rome"},
		"a DNS name is ignored":                          {cn: "rome", usage: client, edit: func(c *x509.Certificate) { c.DNSNames = []string{"paris"} }, want: "rome"},
		"no common name":                                 {usage: client},
		"no common name but a URI":                       {uris: []string{"spiffe://fluidos.eu/cluster/rome"}, usage: client},
		"two common names":                               {usage: client, edit: extraNames("rome", "paris")},
		"the same common name twice":                     {usage: client, edit: extraNames("rome", "rome")},
		"upper case":                                     {cn: "Rome", usage: client},
		"dot":                                            {cn: "rome.it", usage: client},
		"trailing dot":                                   {cn: "rome.", usage: client},
		"leading dash":                                   {cn: "-rome", usage: client},
		"trailing dash":                                  {cn: "rome-", usage: client},
		"wildcard":                                       {cn: "*", usage: client},
		"blank around":                                   {cn: " rome", usage: client},
		"newline behind":                                 {cn: "rome\n", usage: client},
		"NUL inside":                                     {cn: "rome\x00paris", usage: client},
		"letter of another script that looks like an o":  {cn: "r\u043eme", usage: client},
		"path":                             {cn: "../rome", usage: client},
		"URI of another cluster":           {cn: "rome", uris: []string{"spiffe://fluidos.eu/cluster/paris"}, usage: client},
		"URI with another path":            {cn: "rome", uris: []string{"spiffe://fluidos.eu/ns/rome"}, usage: client},
		"URI with more path":               {cn: "rome", uris: []string{"spiffe://fluidos.eu/cluster/rome/x"}, usage: client},
		"URI with a trailing slash":        {cn: "rome", uris: []string{"spiffe://fluidos.eu/cluster/rome/"}, usage: client},
		"URI with an escape":               {cn: "rome", uris: []string{"spiffe://fluidos.eu/cluster/%72ome"}, usage: client},
		"URI with a query":                 {cn: "rome", uris: []string{"spiffe://fluidos.eu/cluster/rome?x"}, usage: client},
		"URI with a port":                  {cn: "rome", uris: []string{"spiffe://fluidos.eu:1/cluster/rome"}, usage: client},
		"URI with a user":                  {cn: "rome", uris: []string{"spiffe://u@fluidos.eu/cluster/rome"}, usage: client},
		"URI without trust domain":         {cn: "rome", uris: []string{"spiffe:///cluster/rome"}, usage: client},
		"URI of another scheme":            {cn: "rome", uris: []string{"https://fluidos.eu/cluster/rome"}, usage: client},
		"two URIs that both match":         {cn: "rome", uris: []string{"spiffe://a/cluster/rome", "spiffe://b/cluster/rome"}, usage: client},
		"server certificate":               {cn: "rome", usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		"no usage":                         {cn: "rome"},
		"any usage is not client auth":     {cn: "rome", usage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}},
		"CA certificate":                   {cn: "rome", usage: client, edit: func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }},
		"certificate that may sign others": {cn: "rome", usage: client, edit: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }},
		"SPIFFE ID of a workload":          {cn: "system:node:rome", usage: client},
	}
	authority := newAuthority(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template := &x509.Certificate{Subject: pkix.Name{CommonName: tc.cn}, ExtKeyUsage: tc.usage}
			for _, uri := range tc.uris {
				template.URIs = append(template.URIs, mustURL(t, uri))
			}
			if tc.edit != nil {
				tc.edit(template)
			}
			got, err := pki.ClusterID(issued(t, authority, template).Leaf)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("ClusterID = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestClusterIDRefusesNil(t *testing.T) {
	if id, err := pki.ClusterID(nil); id != "" || err == nil {
		t.Errorf("ClusterID(nil) = %q, %v; want an error", id, err)
	}
}

func extraNames(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, name := range names {
			c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: pki.OIDCommonName, Value: name})
		}
	}
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	runtest.Check(t, err)
	return u
}
