package pricing

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
)

// metrics of OpenCost that are read, by what they are the price of: one hour of a core, a
// GiB or a GPU of a node. Of GPUs it knows those of NVIDIA's device plugin.
// See https://opencost.io/docs/integrations/metrics.
var metrics = map[corev1.ResourceName]string{
	corev1.ResourceCPU: "node_cpu_hourly_cost", corev1.ResourceMemory: "node_ram_hourly_cost", "nvidia.com/gpu": "node_gpu_hourly_cost",
}

const (
	// askTimeout bounds one answer, as that of a Prometheus server does.
	askTimeout = 10 * time.Second
	// maxAnswer bounds what is read: OpenCost tells of every container too. What is kept
	// of it are three lines a node, in at most maxKept bytes.
	maxAnswer = 512 << 20
	maxKept   = 16 << 20
	maxLine   = 1 << 20
)

// said is what OpenCost says of each node.
type said map[string]map[corev1.ResourceName]string

// newClient trusts the system's roots. It goes nowhere that it is not told to go, and keeps
// no connection: the next question is a minute away.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return &http.Client{
		Transport: transport, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Ask OpenCost how many nodes it says the price of.
func Ask(ctx context.Context, address string) (nodes int, err error) {
	s, err := ask(ctx, newClient(), address)
	return len(s), err
}

func ask(ctx context.Context, client *http.Client, address string) (said, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	response, err := client.Do(request)
	if err != nil {
		return nil, reason(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	s, err := parse(response.Body, maxAnswer)
	if err != nil {
		return nil, reason(err)
	}
	if len(s) == 0 {
		return nil, errors.New("it names no node_cpu_hourly_cost of any node: is it OpenCost, and has it been up for some minutes?")
	}
	return s, nil
}

// reason of a failure, without the address, which is said beside it.
func reason(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[net.Error](err); ok && failed.Timeout() {
		return fmt.Errorf("no whole answer within %s", askTimeout)
	}
	return err
}

// parse metrics in Prometheus' text format. Of the thousands of others nothing is kept.
func parse(in io.Reader, most int64) (said, error) {
	limited := &io.LimitedReader{R: in, N: most}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	var kept bytes.Buffer
	for lines.Scan() {
		if line := lines.Bytes(); isRead(line) {
			kept.Write(line)
			kept.WriteByte('\n')
		}
		if kept.Len() > maxKept {
			return nil, fmt.Errorf("more than %d bytes of prices", maxKept)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("an answer of %d bytes or more", most)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&kept)
	if err != nil {
		return nil, err
	}
	s := said{}
	for resource, metric := range metrics {
		for _, sample := range families[metric].GetMetric() {
			s.take(nodeOf(sample), resource, sample.GetUntyped().GetValue())
		}
	}
	return s, nil
}

// isRead tells the lines of the metrics that are read. Comments are left out, so that all
// are of no type.
func isRead(line []byte) bool {
	name, _, _ := bytes.Cut(bytes.TrimLeft(line, " \t"), []byte("{"))
	for _, metric := range metrics {
		if string(bytes.TrimRight(name, " \t")) == metric {
			return true
		}
	}
	return false
}

// nodeOf a sample: OpenCost has the name twice and means to give up instance.
func nodeOf(sample *dto.Metric) string {
	for _, label := range []string{"node", "instance"} {
		at := slices.IndexFunc(sample.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label })
		if at >= 0 && sample.GetLabel()[at].GetValue() != "" {
			return sample.GetLabel()[at].GetValue()
		}
	}
	return ""
}

// take a price with the places that are kept. OpenCost names a node twice for a while after
// another one came under its name: the dearer holds, and what is no number before all.
func (s said) take(node string, resource corev1.ResourceName, price float64) {
	if node == "" {
		return
	}
	text := strconv.FormatFloat(price, 'f', places, 64)
	if before, ok := s[node][resource]; ok {
		if other, err := strconv.ParseFloat(before, 64); err != nil || other >= price || math.IsNaN(other) {
			return
		}
	}
	if s[node] == nil {
		s[node] = map[corev1.ResourceName]string{}
	}
	s[node][resource] = text
}
