package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/enrolment"
)

func TestEnrolNotesNameRemainingSteps(t *testing.T) {
	of := func(url string, approved bool) string {
		return enrolNotes(enrolment.Facts{URL: url}, &enrolment.Made{Token: enrolment.Token{ClusterID: "rome"}, Approved: approved})
	}
	if got := of("https://b.eu", true); got != "" {
		t.Errorf("no notes expected, got %q", got)
	}
	if got := of("", true); !strings.Contains(got, "--enrolment-public-url") {
		t.Errorf("without an address: %q", got)
	}
	if got := of("https://b.eu", false); !strings.Contains(got, "add rome to spec.approvedClusters") {
		t.Errorf("not approved: %q", got)
	}
}

func TestResolveURLs(t *testing.T) {
	cases := map[string]struct {
		bind, public, enrolment string
		wantPublic              []string
		wantEnrolment           string
		wantErr                 string
	}{
		"nothing":                         {bind: ":8444"},
		"the enrolment address follows":   {bind: ":8444", public: "https://b.eu:443", wantPublic: []string{"https://b.eu:443"}, wantEnrolment: "https://b.eu:8444"},
		"the enrolment address of IPv6":   {bind: "[::]:8444", public: "https://[2001:db8::1]", wantPublic: []string{"https://[2001:db8::1]"}, wantEnrolment: "https://[2001:db8::1]:8444"},
		"an enrolment address of its own": {bind: ":8444", public: "https://b.eu", enrolment: "https://e.eu:31444", wantPublic: []string{"https://b.eu"}, wantEnrolment: "https://e.eu:31444"},
		"no enrolment":                    {bind: "0", public: "https://b.eu", wantPublic: []string{"https://b.eu"}},
		"an enrolment address alone":      {bind: ":8444", enrolment: "https://e.eu", wantEnrolment: "https://e.eu"},
		"http":                            {bind: ":8444", public: "http://b.eu", wantErr: "--public-url"},
		"a path":                          {bind: ":8444", public: "https://b.eu/x", wantErr: "https://host[:port]"},
		"a password":                      {bind: ":8444", enrolment: "https://a:b@b.eu", wantErr: "--enrolment-public-url"},
		"no host":                         {bind: ":8444", public: "https://", wantErr: "--public-url"},
		"a bind address without a port":   {bind: "x", public: "https://b.eu", wantErr: "--enrolment-bind-address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := enrolmentOptions{bindAddress: tc.bind, publicURL: tc.public, enrolmentURL: tc.enrolment}
			public, enrolment, err := o.resolveURLs()
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want one about %s", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.wantPublic, public); err != nil || diff != "" || enrolment != tc.wantEnrolment {
				t.Errorf("enrolment %q, %v; public (-want +got):\n%s", enrolment, err, diff)
			}
		})
	}
}
