package monitoringtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// panelTypes are the panels of Grafana that need neither a plugin nor Angular.
var panelTypes = []string{"stat", "timeseries", "bargauge", "table", "heatmap"}

// A dashboard works with any data source that its user chooses, and keeps its UID when it is
// upgraded. Each of its panels answers a question.
func TestDashboardsArePortable(t *testing.T) {
	uids := map[string]string{}
	chosen := &Datasource{Type: "prometheus", UID: "${datasource}"}
	all := ReadDashboards(t)
	if len(all) != 5 {
		t.Errorf("there are %d Dashboards, want 5", len(all))
	}
	for name, d := range all {
		if d.ID != nil || d.UID == "" || d.Title == "" || uids[d.UID] != "" {
			t.Errorf("%s: id %v, uid %q, title %q; %q has the same uid", name, d.ID, d.UID, d.Title, uids[d.UID])
		}
		uids[d.UID] = name
		if v := d.Templating.List; len(v) == 0 || v[0].Name != "datasource" || v[0].Type != "datasource" {
			t.Errorf("%s: the first variable is not the data source", name)
		}
		for _, v := range d.Templating.List {
			if diff := cmp.Diff(chosen, v.Datasource); v.Type == "query" && diff != "" {
				t.Errorf("%s: variable %s (-want +got):\n%s", name, v.Name, diff)
			}
		}
		titles := map[string]bool{}
		for _, p := range d.Panels {
			if !slices.Contains(panelTypes, p.Type) || titles[p.Title] || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q of type %q has no query, or there are two", name, p.Title, p.Type)
			}
			titles[p.Title] = true
			if !strings.HasSuffix(p.Title, "?") || p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: panel %q with unit %q asks no question, or its answer has no unit", name, p.Title, p.FieldConfig.Defaults.Unit)
			}
			if p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %q is at %+v", name, p.Title, p.GridPos)
			}
			for _, of := range append([]Target{{Datasource: p.Datasource}}, p.Targets...) {
				if diff := cmp.Diff(chosen, of.Datasource); diff != "" {
					t.Errorf("%s: panel %q (-want +got):\n%s", name, p.Title, diff)
				}
			}
		}
	}
}
