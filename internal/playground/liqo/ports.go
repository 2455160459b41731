package liqo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
)

// ports that Liqo's processes listen on. They are kept, because some stand in
// objects of the cluster.
type ports struct {
	Webhook, WebhookHealth, WebhookMetrics int
	ControllerHealth, ControllerMetrics    int
	ReplicatorMetrics                      int
}

// choosePorts reads the ports of the last run, or picks free ones if there was none
// or if another program has taken one since.
func choosePorts(file string) (ports, error) {
	var p ports
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &p) == nil && p.free() {
		return p, nil
	}
	numbers, err := freePorts(6)
	if err != nil {
		return p, err
	}
	p = ports{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]}
	text, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	return p, os.WriteFile(file, text, 0o600)
}

func (p ports) free() bool {
	for _, n := range []int{p.Webhook, p.WebhookHealth, p.WebhookMetrics, p.ControllerHealth, p.ControllerMetrics, p.ReplicatorMetrics} {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n))
		if n == 0 || err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// freePorts asks the kernel for ports, all at once so that they differ.
func freePorts(n int) ([]int, error) {
	var numbers []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close()
		numbers = append(numbers, l.Addr().(*net.TCPAddr).Port)
	}
	return numbers, nil
}

// answers probes an HTTP endpoint for 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}
