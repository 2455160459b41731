package gitops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The fields of Argo CD's and Flux's CRDs that the manifests use. Any other field fails the tests: it is either a
// mistake or must be added here.
type (
	application struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            applicationSpec   `json:"spec"`
	}
	applicationSpec struct {
		Project           string       `json:"project"`
		Source            source       `json:"source"`
		Destination       destination  `json:"destination"`
		IgnoreDifferences []difference `json:"ignoreDifferences,omitempty"`
		SyncPolicy        syncPolicy   `json:"syncPolicy"`
	}
	source struct {
		RepoURL        string `json:"repoURL"`
		Chart          string `json:"chart,omitempty"`
		Path           string `json:"path,omitempty"`
		TargetRevision string `json:"targetRevision"`
		Helm           *struct {
			ReleaseName  string         `json:"releaseName"`
			ValuesObject map[string]any `json:"valuesObject"`
		} `json:"helm,omitempty"`
	}
	destination struct {
		Server    string `json:"server,omitempty"`
		Name      string `json:"name,omitempty"`
		Namespace string `json:"namespace,omitempty"`
	}
	difference struct {
		Group             string   `json:"group"`
		Kind              string   `json:"kind"`
		JQPathExpressions []string `json:"jqPathExpressions"`
	}
	syncPolicy struct {
		Automated struct {
			Prune    bool `json:"prune"`
			SelfHeal bool `json:"selfHeal"`
		} `json:"automated"`
		SyncOptions []string `json:"syncOptions,omitempty"`
		Retry       *struct {
			Limit   int64 `json:"limit"`
			Backoff struct {
				Duration    string `json:"duration"`
				Factor      int64  `json:"factor"`
				MaxDuration string `json:"maxDuration"`
			} `json:"backoff"`
		} `json:"retry,omitempty"`
	}
	applicationSet struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			SyncPolicy struct {
				PreserveResourcesOnDeletion bool `json:"preserveResourcesOnDeletion"`
			} `json:"syncPolicy"`
			GoTemplate        bool     `json:"goTemplate"`
			GoTemplateOptions []string `json:"goTemplateOptions"`
			Generators        []struct {
				Clusters struct {
					Selector metav1.LabelSelector `json:"selector"`
				} `json:"clusters"`
			} `json:"generators"`
			Template struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
				Spec     applicationSpec   `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	helmRelease struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			Interval    metav1.Duration `json:"interval"`
			Timeout     metav1.Duration `json:"timeout"`
			ChartRef    reference       `json:"chartRef"`
			ReleaseName string          `json:"releaseName"`
			Install     struct {
				Remediation remediation `json:"remediation"`
			} `json:"install"`
			Upgrade struct {
				Remediation remediation `json:"remediation"`
			} `json:"upgrade"`
			Test struct {
				Enable bool `json:"enable"`
			} `json:"test"`
			DriftDetection struct {
				Mode   string `json:"mode"`
				Ignore []struct {
					Paths  []string  `json:"paths"`
					Target reference `json:"target"`
				} `json:"ignore"`
			} `json:"driftDetection"`
			DependsOn []reference    `json:"dependsOn"`
			Values    map[string]any `json:"values"`
		} `json:"spec"`
	}
	reference struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
		Name       string `json:"name,omitempty"`
		Namespace  string `json:"namespace,omitempty"`
	}
	remediation struct {
		Retries  int    `json:"retries"`
		Strategy string `json:"strategy,omitempty"`
	}
)

// rome is a cluster as the cluster generator passes it to templates.
var rome = map[string]any{
	"name": "rome", "nameNormalized": "rome", "server": "https://rome.example.com:6443",
	"metadata": map[string]any{
		"labels": map[string]any{"liqo-resource-broker": "member"},
		"annotations": map[string]any{
			"liqo-resource-broker/region": "eu-south", "liqo-resource-broker/endpoint": "https://rome.example.com:6443",
		},
	},
}

func TestArgoCDAppliesInWaves(t *testing.T) {
	waves := map[string]string{}
	for _, app := range applications(t) {
		waves[app.Metadata.Name] = app.Metadata.Annotations["argocd.argoproj.io/sync-wave"]
	}
	want := map[string]string{
		"cert-manager-rome": "-2", "liqo-resource-broker-kinds": "-1", "liqo-resource-broker-agent-kinds-rome": "-1",
		"liqo-resource-broker": "0", "liqo-resource-broker-agent-rome": "1", "requests-rome": "2",
	}
	if diff := cmp.Diff(want, waves); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
}

// The charts' own schemas decide whether the values are valid.
func TestArgoCDRendersOurCharts(t *testing.T) {
	rendered := 0
	for _, app := range applications(t) {
		switch s := app.Spec.Source; {
		case s.Path != "":
			if _, err := os.Stat(filepath.Join("../..", s.Path)); err != nil {
				t.Errorf("%s: %v", app.Metadata.Name, err)
			}
		case strings.HasPrefix(s.Chart, "liqo-resource-broker"):
			rendered++
			ignoresInjectedCAs(t, &app, render(t, s.Chart, s.TargetRevision, s.Helm.ReleaseName, app.Spec.Destination.Namespace, s.Helm.ValuesObject))
		}
	}
	if rendered != 2 {
		t.Errorf("%d charts are rendered, want broker and agent", rendered)
	}
}

// ignoresInjectedCAs fails the test unless an Application ignores exactly the CAs that cert-manager injects into its
// webhook configurations, which are of the given kinds.
func ignoresInjectedCAs(t *testing.T, app *application, kinds []string) {
	t.Helper()
	var want []difference
	for _, kind := range kinds {
		want = append(want, difference{
			Group: "admissionregistration.k8s.io", Kind: kind,
			JQPathExpressions: []string{".webhooks[]?.clientConfig.caBundle"},
		})
	}
	if diff := cmp.Diff(want, app.Spec.IgnoreDifferences); diff != "" {
		t.Errorf("%s: differences that are ignored (-want +got):\n%s", app.Metadata.Name, diff)
	}
	if !slices.Contains(app.Spec.SyncPolicy.SyncOptions, "RespectIgnoreDifferences=true") {
		t.Errorf("%s: a sync would take back what is ignored: add RespectIgnoreDifferences=true", app.Metadata.Name)
	}
}

func TestFluxRendersOurCharts(t *testing.T) {
	for _, file := range []string{"flux/broker.yaml", "flux/agent.yaml"} {
		releases := 0
		for _, text := range documents(t, file) {
			if kindOf(t, text) != "HelmRelease" {
				continue
			}
			var release helmRelease
			if err := yaml.UnmarshalStrict(text, &release); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			releases++
			var ignored []string
			for _, ignore := range release.Spec.DriftDetection.Ignore {
				ignored = append(ignored, ignore.Target.Kind)
			}
			kinds := render(t, release.Spec.ChartRef.Name, "", release.Spec.ReleaseName, release.Metadata.Namespace, release.Spec.Values)
			if diff := cmp.Diff(kinds, ignored); diff != "" {
				t.Errorf("%s: drift of webhook configurations is ignored (-want +got):\n%s", file, diff)
			}
		}
		if releases != 1 {
			t.Errorf("%s has %d HelmReleases, want one", file, releases)
		}
	}
}

// render renders the chart of this checkout with the values, and fails the test unless the chart has the given name and
// version. version is empty if a manifest names a range. It returns the kinds of the rendered webhook configurations,
// sorted.
func render(t *testing.T, name, version, release, namespace string, values map[string]any) (injected []string) {
	t.Helper()
	files := charts.Broker()
	if name == "liqo-resource-broker-agent" {
		files = charts.Agent()
	}
	loaded, err := chart.LoadFS(files)
	runtest.Check(t, err)
	if loaded.Name() != name || version != "" && loaded.Metadata.Version != version {
		t.Errorf("chart %s %s is named, this is %s %s", name, version, loaded.Name(), loaded.Metadata.Version)
	}
	rendered, err := chart.Render(loaded, chart.Release{Name: release, Namespace: namespace, Values: values})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, obj := range rendered.Objects {
		if strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			injected = append(injected, obj.GetKind())
		}
	}
	slices.Sort(injected)
	return injected
}

// applications returns the Applications in the folder, and those that its ApplicationSets generate for rome.
func applications(t *testing.T) []application {
	t.Helper()
	files, err := filepath.Glob("argocd/apps/*.yaml")
	runtest.Check(t, err)
	var out []application
	for _, file := range files {
		for _, text := range documents(t, file) {
			var app application
			switch kind := kindOf(t, text); kind {
			case "Application":
				err = yaml.UnmarshalStrict(text, &app)
			case "ApplicationSet":
				app, err = generate(text)
			default:
				err = fmt.Errorf("kind %q is not expected here", kind)
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			out = append(out, app)
		}
	}
	return out
}

// generate creates the Application for rome like the ApplicationSet controller: it executes the template text with the
// generator's parameters. It returns an error if the ApplicationSet does not have exactly one generator, or if this
// generator does not select rome.
func generate(text []byte) (application, error) {
	var set applicationSet
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		return application{}, err
	}
	if len(set.Spec.Generators) != 1 || !set.Spec.GoTemplate {
		return application{}, errors.New("want one generator and Go templates")
	}
	generator, err := metav1.LabelSelectorAsSelector(&set.Spec.Generators[0].Clusters.Selector)
	if err != nil {
		return application{}, err
	}
	if !generator.Matches(labelsOf(rome)) {
		return application{}, fmt.Errorf("%s selects no member", generator)
	}
	raw, err := yaml.Marshal(set.Spec.Template)
	if err != nil {
		return application{}, err
	}
	parsed, err := template.New(set.Metadata.Name).Option(set.Spec.GoTemplateOptions...).Parse(string(raw))
	if err != nil {
		return application{}, err
	}
	var made bytes.Buffer
	if err := parsed.Execute(&made, rome); err != nil {
		return application{}, err
	}
	var app application
	err = yaml.UnmarshalStrict(made.Bytes(), &app)
	app.Metadata.Annotations = set.Metadata.Annotations // they contain the sync wave
	return app, err
}

// documents returns the YAML documents in a file.
func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	runtest.Check(t, err)
	var out [][]byte
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var document json.RawMessage
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, document)
	}
}

func kindOf(t *testing.T, text []byte) string {
	t.Helper()
	var meta metav1.TypeMeta
	runtest.Check(t, yaml.Unmarshal(text, &meta))
	return meta.Kind
}

func labelsOf(cluster map[string]any) labelSet {
	return cluster["metadata"].(map[string]any)["labels"].(map[string]any)
}

// labelSet is a list of labels that a generator passes to templates.
type labelSet map[string]any

func (s labelSet) Has(name string) bool { return s[name] != nil }

func (s labelSet) Get(name string) string {
	value, _ := s[name].(string)
	return value
}

func (s labelSet) Lookup(name string) (string, bool) {
	value, ok := s[name].(string)
	return value, ok
}
