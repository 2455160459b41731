package identity

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

func TestCondition(t *testing.T) {
	const life = 24 * time.Hour
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := certified(t, "rome", start, life)
	cases := map[string]struct {
		age              time.Duration
		invalid, trouble error
		status           metav1.ConditionStatus
		reason           string
		says             []string
	}{
		"young":                        {0, nil, nil, metav1.ConditionTrue, agentv1alpha1.ReasonCertificateValid, []string{"2026-03-02T12:00:00Z"}},
		"about to be renewed":          {life * 2 / 3, nil, nil, metav1.ConditionTrue, agentv1alpha1.ReasonCertificateValid, []string{"2026-03-02T12:00:00Z"}},
		"not renewed yet":              {life * 6 / 7, nil, nil, metav1.ConditionTrue, agentv1alpha1.ReasonCertificateExpiring, []string{"2026-03-02T12:00:00Z", "--broker-cert-path"}},
		"a renewal fails":              {life * 6 / 7, nil, errors.New("broker away"), metav1.ConditionTrue, agentv1alpha1.ReasonRenewalFailing, []string{"2026-03-02T12:00:00Z", "broker away"}},
		"expired":                      {2 * life, errors.New("expired"), nil, metav1.ConditionFalse, agentv1alpha1.ReasonCertificateInvalid, []string{"expired"}},
		"expired, and no way to renew": {2 * life, errors.New("expired"), errors.New("broker away"), metav1.ConditionFalse, agentv1alpha1.ReasonCertificateInvalid, []string{"expired", "broker away"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			credentials := &pki.Credentials{Certificate: tls.Certificate{Leaf: c.Leaf}}
			if tc.invalid != nil {
				credentials = nil
			}
			got := Condition(credentials, tc.invalid, tc.trouble, start.Add(tc.age))
			if got.Type != agentv1alpha1.ConditionCertificateValid || got.Status != tc.status || got.Reason != tc.reason {
				t.Errorf("condition %+v", got)
			}
			for _, text := range tc.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("message %q does not say %q", got.Message, text)
				}
			}
		})
	}
}
