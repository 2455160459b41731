package local

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
)

// WritePrometheus writes prometheus.yml and rule files into dir, and returns the path of prometheus.yml. With it,
// Prometheus scrapes the pods of broker and agents that run now every second, and evaluates the charts' rules as often.
func (e *Environment) WritePrometheus(dir string) (string, error) {
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules-broker.yaml, rules-agent.yaml]\nscrape_configs:\n")
	for _, name := range e.Playground.Names() {
		addresses, err := e.metricsAddresses(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&config, "  - {job_name: %s, static_configs: [{targets: ['%s']}]}\n", name, strings.Join(addresses, "', '"))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, chart := range map[string]fs.FS{"broker": charts.Broker(), "agent": charts.Agent()} {
		rules, err := fs.ReadFile(chart, "files/rules.yaml")
		if err != nil {
			return "", err
		}
		rules = bytes.ReplaceAll(rules, []byte("interval: 1m"), []byte("interval: 1s"))
		if err := os.WriteFile(filepath.Join(dir, "rules-"+name+".yaml"), rules, 0o600); err != nil {
			return "", err
		}
	}
	file := filepath.Join(dir, "prometheus.yml")
	return file, os.WriteFile(file, []byte(config.String()), 0o600)
}

// metricsAddresses returns where the pods of the broker, or of an agent, serve metrics.
func (e *Environment) metricsAddresses(cluster string) ([]string, error) {
	var addresses []string
	for _, pod := range e.Product.Pods(cluster) {
		port, err := pod.Port("metrics")
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addresses, nil
}
