package app

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

const configHead = "apiVersion: broker.fluidos.eu/v1alpha1\nkind: BrokerConfig\nmetadata: {name: default}\n"

func TestReadConfig(t *testing.T) {
	tests := map[string]struct{ text, wrong string }{
		"a BrokerConfig":            {text: configHead + "spec: {defaultTTL: 2h}"},
		"another kind":              {text: "apiVersion: v1\nkind: ConfigMap", wrong: "give a BrokerConfig"},
		"a key twice":               {text: configHead + "spec: {defaultTTL: 2h, defaultTTL: 3h}", wrong: `"defaultTTL"`},
		"something that is no YAML": {text: "{", wrong: "config.yaml"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := readConfig(file)
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("got %v, want an error with %q", err, test.wrong)
			}
		})
	}
}

// TestBrokerConfigIsAppliedOnceTheClusterIsReady begins like an installation: the CRD is missing
// first, and then its webhook has no server.
func TestBrokerConfigIsAppliedOnceTheClusterIsReady(t *testing.T) {
	plane := controlplanetest.Start(t)
	known, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.RESTConfig(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	webhook := unservedWebhook()
	if err := c.Create(t.Context(), webhook); err != nil {
		t.Fatal(err)
	}
	told, output := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- applyConfig(t.Context(), c, mustReadConfig(t, "spec: {defaultTTL: 2h}"), output) }()

	lines := bufio.NewScanner(told)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "waiting: ") {
		t.Fatalf("got %q", lines.Text())
	}
	kinds, err := manifest.ReadFS(charts.Broker(), "files/crds")
	if err != nil {
		t.Fatal(err)
	}
	if err := manifest.Install(t.Context(), c, kinds); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), webhook); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != `BrokerConfig "default" applied` {
		t.Fatalf("got %q", lines.Text())
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	config := &brokerv1alpha1.BrokerConfig{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, config); err != nil || config.Spec.DefaultTTL.Duration != 2*time.Hour {
		t.Fatalf("got %+v, %v", config.Spec, err)
	}

	t.Run("a field missing in the file is removed", func(t *testing.T) {
		if err := applyConfig(t.Context(), c, mustReadConfig(t, "spec: {scoringPreset: availability}"), io.Discard); err != nil {
			t.Fatal(err)
		}
		config := &brokerv1alpha1.BrokerConfig{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, config); err != nil || config.Spec.DefaultTTL != nil || config.Spec.ScoringPreset != "availability" {
			t.Errorf("got %+v, %v", config.Spec, err)
		}
	})
	for name, test := range map[string]struct{ spec, want string }{
		"what a rule forbids is refused at once": {"spec: {defaultTTL: 1s}", "defaultTTL must be at least 1m"},
		"what is unknown is refused at once":     {"spec: {preset: x}", ".spec.preset: field not declared in schema"},
	} {
		t.Run(name, func(t *testing.T) {
			err := applyConfig(t.Context(), c, mustReadConfig(t, test.spec), io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	t.Run("a timeout names the last error", func(t *testing.T) {
		if err := c.Create(t.Context(), unservedWebhook()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// The time is over after the first attempt.
		err := applyConfig(ctx, c, mustReadConfig(t, "spec: {defaultTTL: 3h}"), onWrite(cancel))
		if err == nil || !strings.Contains(err.Error(), `did not accept BrokerConfig "default" in time`) || !strings.Contains(err.Error(), "unserved.example.com") {
			t.Errorf("got %v", err)
		}
	})
}

// onWrite is a writer that calls a function at every write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func mustReadConfig(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(configHead+spec), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := readConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// unservedWebhook is a webhook for BrokerConfigs without a server.
func unservedWebhook() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "unserved"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "unserved.example.com", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(1)),
			SideEffects:  new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"broker.fluidos.eu"}, APIVersions: []string{"*"}, Resources: []string{"brokerconfigs"}},
			}},
		}},
	}
}
