package local

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/charts/monitoringtest"
)

//go:embed testdata/dashboard.html
var dashboardPage string

// TestDashboardsAreDrawn draws the dashboards of docs/operations.md in Chromium, from a Prometheus that scraped the
// playground. With LRB_SCREENSHOTS=DIR, it writes screenshots to that folder.
func TestDashboardsAreDrawn(t *testing.T) {
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil && os.Getenv("LRB_BROWSER") != "required" {
		t.Skip("Debian's package chromium-headless-shell is not installed")
	}
	check(t, err)
	monitoringtest.FindProgram(t, "prometheus")
	env := playgroundOf(t)
	address, began, rome := startPrometheus(t, env), time.Now(), env.Member("rome")
	for i := range 4 {
		r, _ := readyRequest(t, rome, fmt.Sprintf("passing-%d", i), small())
		check(t, rome.DeleteAndWait(t.Context(), r, patience))
	}
	liveEveryPart(t, env)

	page := template.Must(template.New("page").Parse(dashboardPage))
	for _, name := range []string{"reservations", "broker"} {
		d := readDrawing(t, address, monitoringtest.ReadDashboards(t)[name+".json"], began)
		file := filepath.Join(t.TempDir(), "page.html")
		html, err := os.Create(file)
		check(t, err)
		check(t, page.Execute(html, d))
		check(t, html.Close())
		run := func(arg string) string {
			out, err := exec.CommandContext(t.Context(), chromium, "--no-sandbox", "--hide-scrollbars", fmt.Sprintf("--window-size=1480,%d", d.height()), arg, "file://"+file).Output()
			check(t, err)
			return string(out)
		}
		if n := len(drawnSection.FindAllString(run("--dump-dom"), -1)); n != len(d.Panels) {
			t.Errorf("%s: %d panels are drawn, want %d", d.Title, n, len(d.Panels))
		}
		if dir := os.Getenv("LRB_SCREENSHOTS"); dir != "" {
			run("--screenshot=" + filepath.Join(dir, name+".png"))
		}
	}
}

// drawing is the data of the page. Times are seconds since 1970.
type drawing struct {
	Title          string
	From, To, Step int64
	Panels         []drawnPanel
}

type drawnPanel struct {
	Title, Type, Unit, TextMode string
	Grid                        monitoringtest.GridPos
	Series                      []drawnSeries
}

// drawnSeries is one series in the answer to a query. Each point has a time and, as text, a number.
type drawnSeries struct {
	Legend string
	Points [][2]any
}

// height returns the page's height in pixels.
func (d *drawing) height() int {
	last := d.Panels[len(d.Panels)-1].Grid
	return 60 + 34*(last.Y+last.H)
}

var (
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	// drawnSection matches the start of a panel in the page, but not in its script.
	drawnSection = regexp.MustCompile(`<section style="grid-area: \d`)
)

// readDrawing evaluates the queries of a dashboard, from began until now.
func readDrawing(t *testing.T, address string, board monitoringtest.Dashboard, began time.Time) *drawing {
	t.Helper()
	d := &drawing{Title: board.Title, From: began.Unix(), To: time.Now().Unix(), Step: 1}
	window := url.Values{"start": {strconv.FormatInt(d.From, 10)}, "end": {strconv.FormatInt(d.To, 10)}, "step": {strconv.FormatInt(d.Step, 10)}}
	for _, p := range board.Panels {
		panel := drawnPanel{Title: p.Title, Type: p.Type, Unit: p.FieldConfig.Defaults.Unit, TextMode: p.Options.TextMode, Grid: p.GridPos}
		for _, target := range p.Targets {
			var data struct {
				Result []struct {
					Metric map[string]string
					Values [][2]any
				}
			}
			window.Set("query", variables("15s").Replace(target.Expr))
			check(t, readPrometheus(t.Context(), address, "query_range?"+window.Encode(), &data))
			for _, s := range data.Result {
				legend := legendLabel.ReplaceAllStringFunc(target.Legend, func(label string) string { return s.Metric[strings.Trim(label, "{}")] })
				panel.Series = append(panel.Series, drawnSeries{legend, s.Values})
			}
		}
		d.Panels = append(d.Panels, panel)
	}
	return d
}
