// Package monitoringtest reads the alerts and Dashboards that the charts ship, and tests them.
package monitoringtest

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// files holds the files of each chart.
var files = map[string]fs.FS{"broker": charts.Broker(), "agent": charts.Agent()}

// Metric is one row of docs/metrics.md, which a test keeps equal to what running programs export.
type Metric struct {
	// Kind is counter, gauge or histogram.
	Kind   string
	Labels []string
}

var metricRow = regexp.MustCompile("(?m)^\\| `((?:broker|agent)_[a-z_]+)(?:\\{([a-z_,]+)\\})?` \\| (counter|gauge|histogram) \\|")

// ReadMetrics returns the metrics that docs/metrics.md documents, by name. root is the folder of the
// repository.
func ReadMetrics(t testing.TB, root string) map[string]Metric {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	runtest.Check(t, err)
	out := map[string]Metric{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		out[row[1]] = Metric{Kind: row[3], Labels: strings.FieldsFunc(row[2], func(r rune) bool { return r == ',' })}
	}
	if len(out) < 40 {
		t.Fatalf("docs/metrics.md lists %d metrics", len(out))
	}
	return out
}

// ReadRules returns all rules of both charts.
func ReadRules(t testing.TB) []monitoringv1.Rule {
	t.Helper()
	var out []monitoringv1.Rule
	for name, chart := range files {
		text, err := fs.ReadFile(chart, "files/rules.yaml")
		runtest.Check(t, err)
		var spec monitoringv1.PrometheusRuleSpec
		if err := yaml.UnmarshalStrict(text, &spec); err != nil {
			t.Fatalf("rules of the %s: %v", name, err)
		}
		for _, group := range spec.Groups {
			out = append(out, group.Rules...)
		}
	}
	return out
}

// Dashboard has the fields of a Grafana dashboard that are checked.
type Dashboard struct {
	ID         *int   `json:"id"`
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []Variable `json:"list"`
	} `json:"templating"`
	Panels []Panel `json:"panels"`
}

// Variable is a variable of a dashboard.
type Variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Definition string          `json:"definition"`
	Datasource *Datasource     `json:"datasource"`
	Query      json.RawMessage `json:"query"`
}

// Panel is a panel of a dashboard.
type Panel struct {
	Type       string      `json:"type"`
	Title      string      `json:"title"`
	Datasource *Datasource `json:"datasource"`
	GridPos    GridPos     `json:"gridPos"`
	Targets    []Target    `json:"targets"`

	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Options struct {
		TextMode string `json:"textMode"`
	} `json:"options"`
}

// GridPos is where a panel is, in a grid of 24 columns.
type GridPos struct{ X, Y, W, H int }

// Target is a query of a panel.
type Target struct {
	Datasource *Datasource `json:"datasource"`
	Expr       string      `json:"expr"`
	Legend     string      `json:"legendFormat"`
}

// Datasource is the source of the data of a query or a variable.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// ReadDashboards returns the dashboards of both charts, by file name.
func ReadDashboards(t testing.TB) map[string]Dashboard {
	t.Helper()
	out := map[string]Dashboard{}
	for _, chart := range files {
		names, err := fs.Glob(chart, "files/dashboards/*.json")
		runtest.Check(t, err)
		for _, name := range names {
			text, err := fs.ReadFile(chart, name)
			runtest.Check(t, err)
			var d Dashboard
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out[path.Base(name)] = d
		}
	}
	return out
}

// CopyRules writes the rules of both charts into a folder, as rules-broker.yaml and rules-agent.yaml.
func CopyRules(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, chart := range files {
		text, err := fs.ReadFile(chart, "files/rules.yaml")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "rules-"+name+".yaml"), text, 0o600)
		}
		runtest.Check(t, err)
	}
	return dir
}

// FindProgram returns the path of a program of Prometheus. Without it, the test is skipped unless
// LRB_PROMETHEUS=required.
func FindProgram(t testing.TB, name string) string {
	t.Helper()
	found, err := exec.LookPath(name)
	if err != nil && os.Getenv("LRB_PROMETHEUS") == "required" {
		t.Fatalf("%v: install Debian's package prometheus", err)
	} else if err != nil {
		t.Skipf("%v: install Debian's package prometheus to run this test; LRB_PROMETHEUS=required makes it fail instead", err)
	}
	return found
}
