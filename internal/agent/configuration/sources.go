package configuration

import (
	"errors"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// readPricesFile reads the prices from the file that prices.file names. No other key may be set
// beside prices.file.
func (r *reader) readPricesFile(p *prices, read func(path string) ([]byte, error), c *Configuration) {
	beside := *p
	if beside.File = ""; !reflect.ValueOf(beside).IsZero() {
		r.refuseField("prices.file: %.80q cannot be combined with other keys: keep one", p.File)
		return
	}
	text, err := read(p.File)
	if err != nil {
		r.refuseField("prices.file: %w: create the file, or name another one", err)
		return
	}
	named := &prices{}
	if err := decodeInto(text, named); err != nil && !errors.Is(err, io.EOF) {
		r.refuseField("prices.file: %s: %w", p.File, err)
		return
	}
	if named.File != "" {
		r.refuseField("prices.file: %s: file: it refers to another file, put the prices there", p.File)
		return
	}
	r.readPrices(p.File+": ", named, c)
}

func (r *reader) readPrices(where string, p *prices, c *Configuration) {
	sources := p.listSources()
	if len(sources) > 1 {
		r.refuseField("%s exclude each other: keep one", where+strings.Join(sources, " and "+where))
		return
	}
	c.PriceLabels = r.readPriceLabels(where+"nodeLabels", p.NodeLabels)
	c.OpenCost = r.metricsURL(where+"openCost.url", p.OpenCost)
	cost := brokerv1alpha1.Cost{
		CPUCost: p.CPUCost, MemoryCost: p.MemoryCost, StorageCost: p.StorageCost, EgressCost: p.EgressCost, Currency: p.Currency,
	}
	c.Prices = WithResources(cost, p.ResourceCosts)
	if c.Prices == nil && len(sources) > 0 {
		c.Prices = &cost // prices that come from nodes also need a currency
	}
	r.noteError(checkCost(c.Prices, func(name string) string { return where + name }))
}

// listSources returns which sources of prices for cores, memory and devices are set: fixed prices,
// labels of nodes, or OpenCost. It names each source by one of its fields. The caller refuses a
// configuration with more than one source.
func (p *prices) listSources() (fields []string) {
	switch {
	case p.CPUCost != "":
		fields = append(fields, "cpuCost")
	case p.MemoryCost != "":
		fields = append(fields, "memoryCost")
	case p.ResourceCosts != nil:
		fields = append(fields, "resourceCosts")
	}
	if p.NodeLabels != nil {
		fields = append(fields, "nodeLabels")
	}
	if p.OpenCost != nil {
		fields = append(fields, "openCost")
	}
	return fields
}

// readPriceLabels returns the key of the price label for each resource, or nil if prices do not
// come from labels.
func (r *reader) readPriceLabels(field string, l *nodeLabels) map[corev1.ResourceName]string {
	if l == nil {
		return nil
	}
	keys := map[corev1.ResourceName]string{}
	take := func(field string, name corev1.ResourceName, key string) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			r.refuseField("%s: %.80q is not a label key: %s", field, key, problems[0])
			return
		}
		keys[name] = key
	}
	if l.CPUCost != "" {
		take(field+".cpuCost", corev1.ResourceCPU, l.CPUCost)
	}
	if l.MemoryCost != "" {
		take(field+".memoryCost", corev1.ResourceMemory, l.MemoryCost)
	}
	for _, text := range slices.Sorted(maps.Keys(l.ResourceCosts)) {
		name, at := corev1.ResourceName(text), field+".resourceCosts."+message.Clip(text, 80)
		if !quantity.IsExtended(name) {
			r.refuseField("%s: only extended resources such as nvidia.com/gpu belong here: use cpuCost and memoryCost for cores and memory", at)
		} else if err := quantity.CheckName(name); err != nil {
			r.refuseField("%s: %w", at, err)
		} else {
			take(at, name, l.ResourceCosts[text])
		}
	}
	if len(keys) == 0 {
		r.refuseField("%s: no label is named: give cpuCost, memoryCost or resourceCosts, each with the key of a label", field)
	}
	return keys
}

// metricsURL returns the URL of OpenCost's metrics, or "". Users see the URL, so it must not
// contain a password. An error does not contain the URL, because a wrong URL may contain a
// password.
func (r *reader) metricsURL(field string, o *openCost) string {
	if o == nil {
		return ""
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		r.refuseField("%s: not a URL of metrics: give one such as http://opencost.opencost:9003/metrics, without user and password", field)
	}
	return o.URL
}
