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

// metrics maps a resource to OpenCost's metric of its price per hour: the price of one core, one
// GiB or one GPU. The metric for GPUs covers only GPUs of NVIDIA's device plugin. See
// https://opencost.io/docs/integrations/metrics.
var metrics = map[corev1.ResourceName]string{
	corev1.ResourceCPU: "node_cpu_hourly_cost", corev1.ResourceMemory: "node_ram_hourly_cost", "nvidia.com/gpu": "node_gpu_hourly_cost",
}

const (
	// askTimeout limits one request for the metrics. It is Prometheus' default.
	askTimeout = 10 * time.Second
	// maxAnswer limits the size of an answer in bytes; besides the prices of nodes, it contains
	// metrics of every container. maxKept limits the size of the lines with prices of nodes, and
	// maxLine the length of each line.
	maxAnswer = 512 << 20
	maxKept   = 16 << 20
	maxLine   = 1 << 20
)

// nodePrices maps the names of nodes to their prices in OpenCost's metrics, as text.
type nodePrices map[string]map[corev1.ResourceName]string

// newClient returns a client that follows no redirects. It closes its connections, because the next
// request comes only after a minute.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return &http.Client{
		Transport: transport, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func fetchPrices(ctx context.Context, client *http.Client, address string) (nodePrices, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	response, err := client.Do(request)
	if err != nil {
		return nil, shortReason(err)
	}
	defer func() { _ = response.Body.Close() }() // the body was only read, so an error does not matter
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", response.Status)
	}
	s, err := parseMetrics(response.Body, maxAnswer)
	if err != nil {
		return nil, shortReason(err)
	}
	if len(s) == 0 {
		return nil, errors.New("the answer has no node_cpu_hourly_cost: check that the address is OpenCost's, and that it has run for some minutes")
	}
	return s, nil
}

// shortReason returns the error without the address, which the caller's message already contains.
func shortReason(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[net.Error](err); ok && failed.Timeout() {
		return fmt.Errorf("no complete answer within %s", askTimeout)
	}
	return err
}

// parseMetrics returns the prices of nodes in metrics in the Prometheus text format. It fails if
// the text reaches the size limit, the parameter most, in bytes.
func parseMetrics(in io.Reader, most int64) (nodePrices, error) {
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
			return nil, fmt.Errorf("prices exceed %d bytes", maxKept)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("the answer has %d bytes or more", most)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&kept)
	if err != nil {
		return nil, err
	}
	s := nodePrices{}
	for resource, metric := range metrics {
		for _, sample := range families[metric].GetMetric() {
			s.recordPrice(nodeOf(sample), resource, sample.GetUntyped().GetValue())
		}
	}
	return s, nil
}

// isRead reports whether a line contains a price of a node. It returns false for comments. Because
// comments contain the types of the metrics, the parser then treats all metrics as untyped.
func isRead(line []byte) bool {
	name, _, _ := bytes.Cut(bytes.TrimLeft(line, " \t"), []byte("{"))
	for _, metric := range metrics {
		if string(bytes.TrimRight(name, " \t")) == metric {
			return true
		}
	}
	return false
}

// nodeOf returns the name of the node to which a sample belongs. OpenCost writes it into the labels
// node and instance, and plans to remove instance.
func nodeOf(sample *dto.Metric) string {
	for _, label := range []string{"node", "instance"} {
		at := slices.IndexFunc(sample.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label })
		if at >= 0 && sample.GetLabel()[at].GetValue() != "" {
			return sample.GetLabel()[at].GetValue()
		}
	}
	return ""
}

// recordPrice stores a price of a node. After a node was replaced by another node with the same
// name, OpenCost exports the prices of both nodes for a while. recordPrice then keeps the higher
// price. NaN takes precedence over numbers, so that it is reported.
func (s nodePrices) recordPrice(node string, resource corev1.ResourceName, price float64) {
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
