package configuration

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// MaxLabels is how many labels a cluster may have; the schema of the Advertisement says
// the same.
const MaxLabels = 64

// Configuration is what a file says.
type Configuration struct {
	// Region, Zone and Labels of the cluster; empty or nil where the file says nothing.
	Region, Zone string
	Labels       map[string]string
	// Nodes selects those that are lent.
	Nodes labels.Selector
	// Offer is how much of them is lent.
	Offer offering.Terms
	// Prices of what is lent; nil where the file names none. Where nodes have theirs, it
	// has the others, and the currency of all.
	Prices *brokerv1alpha1.Cost
	// PriceLabels are the keys of the labels in which nodes have their prices, by resource;
	// nil where they do not.
	PriceLabels map[corev1.ResourceName]string
	// OpenCost is the URL of its metrics, which have the prices of nodes; empty where they
	// do not.
	OpenCost string
}

// Default is in force where there is no file.
func Default() *Configuration { return &Configuration{Nodes: labels.Everything()} }

// Parse reads a file, and has others read that it names. Its error names everything that
// is wrong, by line or field, with what to write there.
func Parse(text []byte, read func(path string) ([]byte, error)) (*Configuration, error) {
	f, err := decode(text)
	if err != nil {
		return nil, err
	}
	c := &Configuration{Region: f.Cluster.Region, Zone: f.Cluster.Zone, Labels: f.Cluster.Labels}
	r := reader{}
	for _, at := range []struct{ field, value string }{{"cluster.region", c.Region}, {"cluster.zone", c.Zone}} {
		r.note(wire.CheckLabels(at.field, map[string]string{corev1.LabelTopologyRegion: at.value}, 1))
	}
	r.note(wire.CheckLabels("cluster.labels", c.Labels, MaxLabels))
	c.Nodes = r.selector("offer.nodeSelector", f.Offer.NodeSelector)
	c.Offer = r.offer(&f.Offer)
	if f.Prices.File != "" {
		r.pricesOf(&f.Prices, read, c)
	} else {
		r.prices("prices.", &f.Prices, c)
	}
	if len(r.wrong) > 0 {
		return nil, errors.Join(r.wrong...)
	}
	return c, nil
}

// reader collects what is wrong.
type reader struct{ wrong []error }

func (r *reader) note(err error) {
	if err != nil {
		r.wrong = append(r.wrong, err)
	}
}

func (r *reader) refuse(format string, args ...any) {
	r.note(fmt.Errorf(format, args...))
}

func (r *reader) selector(field, text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		r.refuse("%s: %.80q is no selector (%w): write it as kubectl's --selector takes it, for example pool=lend,!spot", field, text, err)
		return labels.Nothing()
	}
	return selector
}

func (r *reader) offer(o *offer) offering.Terms {
	t := offering.Terms{
		Headroom: quantity.Amounts{}, Cap: quantity.Amounts{}, Minimum: quantity.Amounts{}, Step: quantity.Amounts{},
	}
	t.Withheld = offering.Percentages{All: 100 - r.percent("offer.share", o.Share, 100), Of: map[corev1.ResourceName]int64{}}
	t.HeadroomShare = offering.Percentages{All: r.percent("offer.headroom", o.Headroom, 0), Of: map[corev1.ResourceName]int64{}}
	for _, key := range slices.Sorted(maps.Keys(o.Resources)) {
		name, of, field := corev1.ResourceName(key), o.Resources[key], "offer.resources."+wire.Clip(key, 80)
		if err := quantity.CheckName(name); err != nil {
			r.refuse("%s: %w", field, err)
			continue
		}
		if of.Share != "" {
			t.Withheld.Of[name] = 100 - r.percent(field+".share", of.Share, 100)
		}
		r.headroom(field+".headroom", name, of.Headroom, &t)
		r.amount(field+".cap", name, of.Cap, t.Cap)
		r.amount(field+".minimum", name, of.Minimum, t.Minimum)
		r.amount(field+".step", name, of.Step, t.Step)
		if limit, capped := t.Cap[name]; capped && limit > 0 && max(t.Minimum[name], t.Step[name]) > limit {
			r.refuse("%s.cap: %s is less than minimum or step, so that nothing would be lent: raise it, or give a cap of 0 if that is meant", field, of.Cap)
		}
		if of.OverSubscription != "" {
			ratios, err := quantity.ParseRatios(map[string]string{key: of.OverSubscription})
			if err != nil {
				r.refuse("%s.overSubscription: %w", field, err)
			}
			t.Ratios = t.Ratios.With(name, ratios[name])
		}
	}
	return t
}

var isPercent = regexp.MustCompile(`^([0-9]{1,2}|100)%?$`)

// percent reads a whole number, with or without its sign.
func (r *reader) percent(field, text string, unset int64) int64 {
	if text == "" {
		return unset
	}
	if !isPercent.MatchString(text) {
		r.refuse("%s: %.40q is no percentage: give a whole number from 0 to 100, for example 80", field, text)
		return unset
	}
	percent, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64) // as was just matched
	return percent
}

// headroom of one resource takes the place of that of all: a percentage or an amount.
func (r *reader) headroom(field string, name corev1.ResourceName, text string, t *offering.Terms) {
	if strings.HasSuffix(text, "%") {
		t.HeadroomShare.Of[name] = r.percent(field, text, 0)
	} else if text != "" {
		t.HeadroomShare.Of[name] = 0
		r.amount(field, name, text, t.Headroom)
	}
}

func (r *reader) amount(field string, name corev1.ResourceName, text string, into quantity.Amounts) {
	if text == "" {
		return
	}
	amounts, err := wire.ToAmounts(v1.Amounts{string(name): text})
	if err != nil {
		r.refuse("%s: %w", field, err)
		return
	}
	into[name] = amounts[name]
}
