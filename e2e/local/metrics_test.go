package local

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/api/resource"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts/monitoringtest"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

var updateMetrics = flag.Bool("update-metrics", false, "write the tables of docs/metrics.md")

const metricsPage = "../../docs/metrics.md"

// onlyInOtherTests are metrics without a series until a consumer exceeds its grant, or while there is no
// channel of notifications. Their rows stay as they are.
var onlyInOtherTests = []string{"agent_pods_refused_total", "broker_export_lag_seconds", "broker_exports_total"}

// liveEveryPart makes the broker grant, queue and refuse, so that every metric has a value.
func liveEveryPart(t *testing.T, env *Environment) {
	t.Helper()
	rome := env.Member("rome")
	holds, _ := readyRequest(t, rome, "holds-one", withGPU())
	run(t, env, rome, holds)
	many := small()
	many["nvidia.com/gpu"] = resource.MustParse("2")
	waits, err := rome.Request(t.Context(), namespace, "waits", many, func(s *agentv1alpha1.ResourceRequestSpec) { s.QueuePolicy = brokerv1alpha1.QueuePolicyQueue })
	check(t, err)
	check(t, rome.AwaitPhase(t.Context(), waits, readyWithin, agentv1alpha1.RequestQueued))
	refused, err := rome.Request(t.Context(), namespace, "refused", many)
	check(t, err)
	check(t, rome.AwaitPhase(t.Context(), refused, readyWithin, agentv1alpha1.RequestFailed))
	passing, _ := readyRequest(t, rome, "passing", small())
	check(t, rome.DeleteAndWait(t.Context(), passing, patience))
}

// TestMetricsOfPlayground compares docs/metrics.md with what the running programs export, and asks a
// Prometheus that scrapes them every query of the dashboards and rules.
func TestMetricsOfPlayground(t *testing.T) {
	env := playgroundOf(t)
	liveEveryPart(t, env)
	families := map[string]*dto.MetricFamily{}
	for _, name := range []string{playground.BrokerCluster, "rome", "berlin"} {
		addresses, err := env.metricsAddresses(name)
		check(t, err)
		for _, address := range addresses {
			addFamilies(t, families, address)
		}
	}
	t.Run("the page lists what is exported", func(t *testing.T) { comparePage(t, families) })
	t.Run("every query has an answer", func(t *testing.T) { askPrometheus(t, env) })
}

// addFamilies adds the metrics of one address to families.
func addFamilies(t *testing.T, families map[string]*dto.MetricFamily, address string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(response.Body)
	check(t, err)
	for family, metrics := range found {
		if families[family] == nil {
			families[family] = metrics
		} else {
			families[family].Metric = append(families[family].Metric, metrics.Metric...)
		}
	}
}

// comparePage fails the test if the page's tables differ from the metrics. If the test is to update the page,
// it writes the tables instead.
func comparePage(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	content, err := os.ReadFile(metricsPage)
	check(t, err)
	page := string(content)
	for _, program := range []string{"broker", "agent"} {
		begin, end := "<!-- metrics of "+program+" -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(page, begin)
		table, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("docs/metrics.md has no marks %q and %q", begin, end)
		}
		page = before + begin + metricsTable(program+"_", families, table) + end + after
	}
	if *updateMetrics {
		check(t, os.WriteFile(metricsPage, []byte(page), 0o644))
		return
	}
	if diff := cmp.Diff(page, string(content)); diff != "" {
		t.Errorf("docs/metrics.md differs from what is exported: run go test ./e2e/local -run TestMetricsOfPlayground -update-metrics (-exported +page):\n%s", diff)
	}
}

// metricsTable returns the table of all families with a prefix.
func metricsTable(prefix string, families map[string]*dto.MetricFamily, old string) string {
	rows := map[string]string{}
	for row := range strings.Lines(old) {
		for _, name := range onlyInOtherTests {
			if strings.HasPrefix(row, "| `"+name+"{") {
				rows[name] = row
			}
		}
	}
	for name, family := range families {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		labels := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		shown := ""
		if len(labels) > 0 {
			shown = "{" + strings.Join(slices.Sorted(maps.Keys(labels)), ",") + "}"
		}
		rows[name] = fmt.Sprintf("| `%s%s` | %s | %s |\n", name, shown, strings.ToLower(family.GetType().String()), family.GetHelp())
	}
	var table strings.Builder
	table.WriteString("| metric | type | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table.WriteString(rows[name])
	}
	return table.String()
}

// empty lists parts of queries: a query that contains one of them may find nothing while all is well.
var empty = []string{"ALERTS", "agent_pods_refused_total", `broker_moves_total`, `code=~"[45].."`, "broker_queue_wait_seconds_bucket", "broker_journal_batch_records",
	"avg_over_time", "predict_linear", "broker_journal_conflicts_total"}

// askPrometheus starts a Prometheus with the shipped rules, and evaluates all queries of dashboards and
// rules. It fails the test if a query is wrong, or finds nothing although it should.
func askPrometheus(t *testing.T, env *Environment) {
	t.Helper()
	address := startPrometheus(t, env)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		n, err := query(ctx, address, "rate(broker_serving[30s]) and rate(agent_broker_up[30s]) or count_over_time(broker:resource:sum[1m]) > 5")
		if n == 0 || err != nil {
			return fmt.Sprintf("enough scrapes, %v", err), nil
		}
		return "", nil
	}))
	for name, board := range monitoringtest.ReadDashboards(t) {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				wantAnswer(ctx, t, address, name+": "+panel.Title, variables("1m").Replace(target.Expr))
			}
		}
	}
	for _, rule := range monitoringtest.ReadRules(t) {
		if rule.Record != "" {
			wantAnswer(ctx, t, address, rule.Record, rule.Expr.String())
		} else if _, err := query(ctx, address, rule.Expr.String()); err != nil {
			t.Errorf("%s: %v", rule.Alert, err)
		}
	}
	firing, err := query(ctx, address, `ALERTS{alertstate="firing",severity!="info"}`)
	if firing != 0 || err != nil {
		t.Errorf("%d alerts fire while all is well, %v", firing, err)
	}
}

// variables replaces the variables of dashboards.
func variables(rateInterval string) *strings.Replacer {
	return strings.NewReplacer("$__rate_interval", rateInterval, "$resource", ".*", "$requester", ".*", "$currency", ".*", "$cluster", ".*", "$namespace", ".*")
}

func wantAnswer(ctx context.Context, t *testing.T, address, where, expr string) {
	t.Helper()
	n, err := query(ctx, address, expr)
	mayBeEmpty := slices.ContainsFunc(empty, func(part string) bool { return strings.Contains(expr, part) })
	if err != nil || n == 0 && !mayBeEmpty {
		t.Errorf("%s: %d series, %v\n%s", where, n, err, expr)
	}
}

// startPrometheus runs a Prometheus that scrapes the playground every second. change may edit its files.
func startPrometheus(t *testing.T, env *Environment, change ...func(t *testing.T, dir string)) (address string) {
	t.Helper()
	dir := t.TempDir()
	config, err := env.WritePrometheus(dir)
	check(t, err)
	for _, f := range change {
		f(t, dir)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address = listener.Addr().String()
	check(t, listener.Close())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, monitoringtest.FindProgram(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path=data", "--web.listen-address="+address)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	check(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("Prometheus: %s", log.Bytes()[max(0, log.Len()-3000):])
		}
	})
	return address
}

// query returns how many series an expression has now.
func query(ctx context.Context, address, expr string) (int, error) {
	var data struct{ Result []json.RawMessage }
	err := readPrometheus(ctx, address, "query?query="+url.QueryEscape(expr), &data)
	return len(data.Result), err
}

// readPrometheus reads the answer to a call of Prometheus's API into data.
func readPrometheus(ctx context.Context, address, call string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/"+call, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}
