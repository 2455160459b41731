package pricing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// exported is what OpenCost exports for two nodes, among other metrics.
const exported = `# HELP container_cpu_allocation container_cpu_allocation Percent of a single CPU used in a minute
# TYPE container_cpu_allocation gauge
container_cpu_allocation{container="a",instance="n1",namespace="default",node="n1",pod="p",uid="1"} 0.25
# HELP node_cpu_hourly_cost node_cpu_hourly_cost hourly cost for each cpu on this node
# TYPE node_cpu_hourly_cost gauge
node_cpu_hourly_cost{arch="amd64",instance="n1",instance_type="e2-standard-4",node="n1",provider_id="gce://x",region="eu",uid="1"} 0.031611
node_cpu_hourly_cost{arch="amd64",instance="n2",instance_type="a2",node="n2",provider_id="gce://y",region="eu",uid="2"} 3.1611e-02
# TYPE node_gpu_hourly_cost gauge
node_gpu_hourly_cost{arch="amd64",instance="n1",instance_type="e2-standard-4",node="n1",provider_id="gce://x",region="eu",uid="1"} 0
node_gpu_hourly_cost{arch="amd64",instance="n2",instance_type="a2",node="n2",provider_id="gce://y",region="eu",uid="2"} 0.95
# TYPE node_ram_hourly_cost gauge
node_ram_hourly_cost{arch="amd64",instance="n1",instance_type="e2-standard-4",node="n1",provider_id="gce://x",region="eu",uid="1"} 0.004237
node_ram_hourly_cost{arch="amd64",instance="n2",instance_type="a2",node="n2",provider_id="gce://y",region="eu",uid="2"} 0.0042371234567
node_total_hourly_cost{arch="amd64",instance="n1",instance_type="e2-standard-4",node="n1",provider_id="gce://x",region="eu",uid="1"} 0.17
`

func prices(cpu, memory, gpu string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu}
}

func TestParseMetricsReadsNodePrices(t *testing.T) {
	one := func(price string) nodePrices { return nodePrices{"n1": {"cpu": price}} }
	cases := map[string]struct {
		text string
		want nodePrices
	}{
		"an export":                     {text: exported, want: nodePrices{"n1": prices("0.031611000", "0.004237000", "0.000000000"), "n2": prices("0.031611000", "0.004237123", "0.950000000")}},
		"one without a line at its end": {text: `node_cpu_hourly_cost{node="n1"} 1`, want: one("1.000000000")},
		"of an instance":                {text: `node_cpu_hourly_cost{instance="n1"} 1`, want: one("1.000000000")},
		"the node before the instance":  {text: `node_cpu_hourly_cost{instance="10.0.0.1:9003",node="n1"} 1`, want: one("1.000000000")},
		"with a time":                   {text: `node_cpu_hourly_cost{node="n1"} 1 1700000000000`, want: one("1.000000000")},
		"the dearer of two":             {text: "node_cpu_hourly_cost{node=\"n1\",uid=\"1\"} 2\nnode_cpu_hourly_cost{node=\"n1\",uid=\"2\"} 1", want: one("2.000000000")},
		"whichever comes first":         {text: "node_cpu_hourly_cost{node=\"n1\",uid=\"1\"} 1\nnode_cpu_hourly_cost{node=\"n1\",uid=\"2\"} 2", want: one("2.000000000")},
		"what is no number":             {text: "node_cpu_hourly_cost{node=\"n1\",uid=\"1\"} NaN\nnode_cpu_hourly_cost{node=\"n1\",uid=\"2\"} 2", want: one("NaN")},
		"of no node":                    {text: `node_cpu_hourly_cost{uid="1"} 1`, want: nodePrices{}},
		"nothing":                       {text: "", want: nodePrices{}},
		"other metrics of that name":    {text: `node_cpu_hourly_cost_total{node="n1"} 1`, want: nodePrices{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseMetrics(strings.NewReader(tc.text), maxAnswer)
			runtest.Check(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseMetricsRefusesMalformedAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"no number":   `node_cpu_hourly_cost{node="n1"} cheap`,
		"half a line": `node_cpu_hourly_cost{node="n1`,
		"a long line": `node_cpu_hourly_cost{node="` + strings.Repeat("n", maxLine) + `"} 1`,
		"too much":    exported + strings.Repeat("#\n", 4000),
	} {
		if got, err := parseMetrics(strings.NewReader(text), 8000); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
	line := `node_cpu_hourly_cost{node="n1",pad="` + strings.Repeat("x", maxLine/2) + "\"} 1\n"
	if got, err := parseMetrics(strings.NewReader(strings.Repeat(line, maxKept/len(line)+2)), maxAnswer); err == nil {
		t.Errorf("too many prices: read as %v", got)
	}
}

func TestFetchPricesNamesProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another server":  {answer: http.NotFound, want: "the server answers 404 Not Found"},
		"other metrics":   {answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") }, want: "is OpenCost's"},
		"a page":          {answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "<html>") }, want: "is OpenCost's"},
		"another address": {answer: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, want: "the server answers 302 Found"},
		"half an answer": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, "#")
		}, want: "unexpected EOF"},
		"a broken network": {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.answer)
			defer server.Close()
			if nodes, err := fetchPrices(t.Context(), newClient(), server.URL); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), server.URL) {
				t.Errorf("prices %v, error %v, want %q", nodes, err, tc.want)
			}
		})
	}
	// The server's certificate is not signed by the system's roots.
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := fetchPrices(t.Context(), newClient(), server.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger's certificate: %v", err)
	}
}

// Every answer is refused, or yields valid prices of named nodes that do not depend on other
// metrics.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		exported, "", "node_cpu_hourly_cost{node=\"a\\n\\\"b\"} +Inf\n", "node_ram_hourly_cost{} 1\n", " node_gpu_hourly_cost {node=\"x\",} -0 1\n",
		"node_cpu_hourly_cost{node=\"a\"} NaN\nnode_cpu_hourly_cost{node=\"a\"} 1\n", "node_cpu_hourly_cost{node=\"a\",node=\"b\"} 0x1p-2\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseMetrics(strings.NewReader(string(text)), 1<<20)
		if err != nil {
			return
		}
		for name, says := range got {
			if name == "" || len(says) == 0 {
				t.Fatalf("node %q says %v", name, says)
			}
			one := node{name: name, allocatable: quantity.Amounts{cpu: 1, gpu: 1}, says: says}
			for of, price := range meanPrices([]node{one}, []corev1.ResourceName{cpu, gpu}).prices {
				if err := configuration.CheckPrice(price); err != nil {
					t.Fatalf("%s: %v", of, err)
				}
			}
		}
		again, err := parseMetrics(strings.NewReader("# TYPE node_cpu_hourly_cost histogram\nup 1\n"+string(text)), 1<<20)
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("beside other metrics it means something else (%v):\n%s", err, diff)
		}
	})
}
