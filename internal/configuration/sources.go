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
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// pricesOf another file.
func (r *reader) pricesOf(p *prices, read func(path string) ([]byte, error), c *Configuration) {
	beside := *p
	if beside.File = ""; !reflect.ValueOf(beside).IsZero() {
		r.refuse("prices.file: %.80q and keys beside it exclude each other: leave one", p.File)
		return
	}
	text, err := read(p.File)
	if err != nil {
		r.refuse("prices.file: %w: put it there, or name another one", err)
		return
	}
	named := &prices{}
	if err := decodeInto(text, named); err != nil && !errors.Is(err, io.EOF) {
		r.refuse("prices.file: %s: %w", p.File, err)
		return
	}
	if named.File != "" {
		r.refuse("prices.file: %s: file: it names another one, give prices there", p.File)
		return
	}
	r.prices(p.File+": ", named, c)
}

func (r *reader) prices(where string, p *prices, c *Configuration) {
	sources := p.sources()
	if len(sources) > 1 {
		r.refuse("%s exclude each other: leave one", where+strings.Join(sources, " and "+where))
		return
	}
	c.PriceLabels = r.priceLabels(where+"nodeLabels", p.NodeLabels)
	c.OpenCost = r.metrics(where+"openCost.url", p.OpenCost)
	cost := brokerv1alpha1.Cost{
		CPUCost: p.CPUCost, MemoryCost: p.MemoryCost, StorageCost: p.StorageCost, EgressCost: p.EgressCost, Currency: p.Currency,
	}
	c.Prices = WithResources(cost, p.ResourceCosts)
	if c.Prices == nil && len(sources) > 0 {
		c.Prices = &cost // what nodes say means nothing without a currency either
	}
	r.note(CheckCost(c.Prices, func(name string) string { return where + name }))
}

// sources of the prices of cores, memory and pieces: a field of each.
func (p *prices) sources() (fields []string) {
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

// priceLabels are the keys of labels by resource.
func (r *reader) priceLabels(field string, l *nodeLabels) map[corev1.ResourceName]string {
	if l == nil {
		return nil
	}
	keys := map[corev1.ResourceName]string{}
	take := func(field string, name corev1.ResourceName, key string) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			r.refuse("%s: %.80q is no key of a label: %s", field, key, problems[0])
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
		name, at := corev1.ResourceName(text), field+".resourceCosts."+wire.Clip(text, 80)
		if !quantity.IsExtended(name) {
			r.refuse("%s: it is for extended resources such as nvidia.com/gpu: cores and memory have cpuCost and memoryCost", at)
		} else if err := quantity.CheckName(name); err != nil {
			r.refuse("%s: %w", at, err)
		} else {
			take(at, name, l.ResourceCosts[text])
		}
	}
	if len(keys) == 0 {
		r.refuse("%s: it names no label: give cpuCost, memoryCost or resourceCosts, each with the key of a label", field)
	}
	return keys
}

// metrics is the URL of OpenCost's. It is shown to people: nothing secret may be in it, and
// what is wrong with it is not shown.
func (r *reader) metrics(field string, o *openCost) string {
	if o == nil {
		return ""
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		r.refuse("%s: it is not the URL of metrics: give one such as http://opencost.opencost:9003/metrics, without user and password", field)
	}
	return o.URL
}
