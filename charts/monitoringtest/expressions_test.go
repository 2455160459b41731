package monitoringtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// expression is a query with the texts that show its labels.
type expression struct {
	where, query, legend string
}

var (
	selectorPattern = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	namePattern     = regexp.MustCompile(`\b(?:broker|agent)(?:[_:][a-z0-9_:]+)`)
	matcherPattern  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	groupPattern    = regexp.MustCompile(`\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)`)
	stringPattern   = regexp.MustCompile(`"[^"]*"`)
	legendPattern   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)[^}]*\}\}`)
	valuesPattern   = regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z_]+)\)$`)
	chosenPattern   = regexp.MustCompile(`(?:cluster|namespace)=~"\$(?:cluster|namespace)",?`)
	suffixPattern   = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// foreign are metrics of Prometheus and of libraries, with their labels.
var foreign = map[string]Metric{
	"ALERTS":                       {Kind: "gauge", Labels: []string{"alertname", "alertstate", "severity"}},
	"go_memstats_heap_inuse_bytes": {Kind: "gauge"},
}

// targetLabels are what Prometheus may add to every series.
var targetLabels = []string{"cluster", "instance", "job", "namespace", "pod"}

// vocabulary knows metrics and recorded series, and the labels of each.
type vocabulary map[string]Metric

// newVocabulary adds the recorded series to the metrics. Each has the labels of its aggregation.
func newVocabulary(t *testing.T) vocabulary {
	t.Helper()
	v := vocabulary(ReadMetrics(t, root))
	maps.Copy(v, foreign)
	for _, r := range ReadRules(t) {
		if r.Record == "" {
			continue
		}
		var labels []string
		if outer := regexp.MustCompile(`^\s*sum by \(([^)]*)\)`).FindStringSubmatch(r.Expr.String()); outer != nil {
			labels = splitLabels(outer[1])
		}
		v[r.Record] = Metric{Kind: "gauge", Labels: labels}
	}
	return v
}

func splitLabels(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// labelsOf returns the labels of a series, and whether anything exports it.
func (v vocabulary) labelsOf(name string) ([]string, bool) {
	if m, ok := v[name]; ok {
		return m.Labels, m.Kind != "histogram" // a histogram is queried through its parts
	}
	base := suffixPattern.ReplaceAllString(name, "")
	m, ok := v[base]
	if strings.HasSuffix(name, "_bucket") {
		return append(slices.Clone(m.Labels), "le"), ok && m.Kind == "histogram"
	}
	return m.Labels, ok && m.Kind == "histogram"
}

// check returns what is wrong with an expression.
func (v vocabulary) check(e expression) (wrong []string) {
	known := slices.Clone(targetLabels)
	// The values of labels that Prometheus adds differ between installations. So only variables of a dashboard select by
	// them.
	plain := stringPattern.ReplaceAllString(chosenPattern.ReplaceAllString(e.query, ""), `""`)
	names := namePattern.FindAllString(plain, -1)
	for name := range foreign {
		if strings.Contains(plain, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		wrong = append(wrong, "it reads none of our metrics")
	}
	for _, name := range names {
		labels, ok := v.labelsOf(name)
		if !ok {
			wrong = append(wrong, "nothing exports "+name)
		}
		known = append(known, labels...)
	}
	for _, selector := range selectorPattern.FindAllStringSubmatch(plain, -1) {
		labels, _ := v.labelsOf(selector[1])
		for _, matcher := range matcherPattern.FindAllStringSubmatch(selector[2], -1) {
			if !slices.Contains(labels, matcher[1]) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", selector[1], matcher[1]))
			}
		}
	}
	var shown []string
	for _, group := range groupPattern.FindAllStringSubmatch(plain, -1) {
		shown = append(shown, splitLabels(group[1])...)
	}
	for _, legend := range legendPattern.FindAllStringSubmatch(strings.ReplaceAll(e.legend, "$value", ""), -1) {
		shown = append(shown, legend[1])
	}
	for _, label := range shown {
		if !slices.Contains(known, label) {
			wrong = append(wrong, "none of its metrics has label "+label)
		}
	}
	return wrong
}

// expressions returns all queries of rules and Dashboards.
func expressions(t *testing.T) []expression {
	t.Helper()
	var out []expression
	for _, r := range ReadRules(t) {
		out = append(out, expression{nameOf(r), r.Expr.String(), valueless(r.Annotations["summary"] + r.Annotations["description"])})
	}
	for name, d := range ReadDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				out = append(out, expression{name + ": " + p.Title, target.Expr, target.Legend})
			}
		}
		for _, variable := range d.Templating.List {
			if variable.Type != "query" {
				continue
			}
			values := valuesPattern.FindStringSubmatch(variable.Definition)
			if values == nil {
				t.Errorf("%s: variable %s asks %q", name, variable.Name, variable.Definition)
				continue
			}
			out = append(out, expression{name + ": variable " + variable.Name, values[1], "{{" + values[2] + "}}"})
		}
	}
	return out
}

// valueless removes template actions that show a value without a label.
func valueless(text string) string {
	return regexp.MustCompile(`\{\{\s*\$value[^}]*\}\}`).ReplaceAllString(text, "")
}

func nameOf(r monitoringv1.Rule) string {
	if r.Record != "" {
		return r.Record
	}
	return r.Alert
}

func TestRulesAndDashboardsUseExistingMetricsAndLabels(t *testing.T) {
	v := newVocabulary(t)
	all := expressions(t)
	if len(all) < 80 {
		t.Fatalf("found %d expressions", len(all))
	}
	for _, e := range all {
		for _, wrong := range v.check(e) {
			t.Errorf("%s: %s\n%s", e.where, wrong, e.query)
		}
	}
}

func TestWrongExpressionsAreFound(t *testing.T) {
	v := newVocabulary(t)
	cases := map[string]struct {
		expression
		want string
	}{
		"a metric that nothing exports":     {expression{query: `sum(broker_invented)`}, "nothing exports broker_invented"},
		"a histogram without a part":        {expression{query: `rate(broker_time_to_ready_seconds[5m])`}, "nothing exports broker_time_to_ready_seconds"},
		"a bucket of a counter":             {expression{query: `rate(broker_decisions_total_bucket[5m])`}, "nothing exports broker_decisions_total_bucket"},
		"a label that the metric lacks":     {expression{query: `broker_cluster_phase{cluster="rome"}`}, "broker_cluster_phase has no label cluster"},
		"a label to aggregate by":           {expression{query: `sum by (tenant) (broker_cluster_phase)`}, "none of its metrics has label tenant"},
		"a label in the legend":             {expression{query: `broker_cluster_phase`, legend: "{{requester}}"}, "none of its metrics has label requester"},
		"a label of a recorded series":      {expression{query: `broker:resource:sum{member="rome"}`}, "broker:resource:sum has no label member"},
		"metrics of others only":            {expression{query: `up == 0`}, "it reads none of our metrics"},
		"a right one with a bucket's limit": {expression{query: `sum by (le) (rate(broker_time_to_ready_seconds_bucket{le="60"}[5m]))`}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(v.check(tc.expression), "; "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Users who monitor many clusters usually add a label cluster to all series. It would collide with
// a label of ours.
func TestNoLabelIsCalledCluster(t *testing.T) {
	for name, m := range ReadMetrics(t, root) {
		if slices.Contains(m.Labels, "cluster") {
			t.Errorf("%s has a label cluster: call it member, or after the cluster's role", name)
		}
	}
}
