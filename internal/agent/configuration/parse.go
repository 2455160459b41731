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
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// maxLabels is how many labels, and how many claims, a cluster may have; the schema of the
// Advertisement has the same limit.
const maxLabels = 64

// Configuration is a parsed file.
type Configuration struct {
	// Region, Zone, Labels and Claims of the cluster; empty or nil if the file does not set them.
	Region, Zone   string
	Labels, Claims map[string]string
	// Nodes selects the nodes to lend from.
	Nodes labels.Selector
	// Taints are the taints of nodes that are lent to requests that tolerate them.
	Taints []brokerv1alpha1.Taint
	// Offer limits how much of them is lent.
	Offer offering.Rules
	// Prices of lent capacity; nil if the file has none. If nodes provide prices, it holds the
	// others and the currency.
	Prices *brokerv1alpha1.Cost
	// PriceLabels maps resources to the keys of the node labels that hold their prices; nil if
	// unused.
	PriceLabels map[corev1.ResourceName]string
	// OpenCost is the URL of OpenCost's metrics, which hold the prices of nodes; empty if unused.
	OpenCost string
}

// Default is in force if there is no file.
func Default() *Configuration { return &Configuration{Nodes: labels.Everything()} }

// Parse interprets a file, and reads the files that it names with read. Its error names every
// problem, by line or field, with the remedy.
func Parse(text []byte, read func(path string) ([]byte, error)) (*Configuration, error) {
	f, err := decodeFile(text)
	if err != nil {
		return nil, err
	}
	c := &Configuration{Region: f.Cluster.Region, Zone: f.Cluster.Zone, Labels: f.Cluster.Labels, Claims: f.Cluster.Claims}
	r := reader{}
	for _, at := range []struct{ field, value string }{{"cluster.region", c.Region}, {"cluster.zone", c.Zone}} {
		r.noteError(requirements.CheckLabels(at.field, map[string]string{corev1.LabelTopologyRegion: at.value}, 1))
	}
	r.noteError(requirements.CheckLabels("cluster.labels", c.Labels, maxLabels))
	r.noteError(requirements.CheckClaims("cluster.claims", c.Claims, maxLabels))
	c.Nodes = r.readSelector("offer.nodeSelector", f.Offer.NodeSelector)
	c.Taints = r.readTaints("offer.taints", f.Offer.Taints)
	c.Offer = r.readOffer(&f.Offer)
	if f.Prices.File != "" {
		r.readPricesFile(&f.Prices, read, c)
	} else {
		r.readPrices("prices.", &f.Prices, c)
	}
	if len(r.wrong) > 0 {
		return nil, errors.Join(r.wrong...)
	}
	return c, nil
}

// reader collects problems.
type reader struct{ wrong []error }

func (r *reader) noteError(err error) {
	if err != nil {
		r.wrong = append(r.wrong, err)
	}
}

func (r *reader) refuseField(format string, args ...any) {
	r.noteError(fmt.Errorf(format, args...))
}

func (r *reader) readSelector(field, text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		r.refuseField("%s: %.80q is not a selector (%w): use the syntax of kubectl's --selector, for example pool=lend,!spot", field, text, err)
		return labels.Nothing()
	}
	return selector
}

func (r *reader) readTaints(field string, texts []string) (out []brokerv1alpha1.Taint) {
	for _, text := range texts {
		taint, err := requirements.ParseTaint(text)
		if err != nil {
			r.refuseField("%s: %w; write a taint as kubectl shows it, for example dedicated=gpu:NoSchedule", field, err)
			continue
		}
		out = append(out, taint)
	}
	r.noteError(requirements.CheckCount(field, len(texts), requirements.MaxTaints))
	return out
}

func (r *reader) readOffer(o *offer) offering.Rules {
	t := offering.Rules{
		Headroom: quantity.Amounts{}, Cap: quantity.Amounts{}, Minimum: quantity.Amounts{}, Step: quantity.Amounts{},
	}
	t.Withheld = offering.Percentages{All: 100 - r.readPercent("offer.share", o.Share, 100), Of: map[corev1.ResourceName]int64{}}
	t.HeadroomShare = offering.Percentages{All: r.readPercent("offer.headroom", o.Headroom, 0), Of: map[corev1.ResourceName]int64{}}
	for _, key := range slices.Sorted(maps.Keys(o.Resources)) {
		name, of, field := corev1.ResourceName(key), o.Resources[key], "offer.resources."+message.Clip(key, 80)
		if err := quantity.CheckName(name); err != nil {
			r.refuseField("%s: %w", field, err)
			continue
		}
		if of.Share != "" {
			t.Withheld.Of[name] = 100 - r.readPercent(field+".share", of.Share, 100)
		}
		r.readHeadroom(field+".headroom", name, of.Headroom, &t)
		r.readAmount(field+".cap", name, of.Cap, t.Cap)
		r.readAmount(field+".minimum", name, of.Minimum, t.Minimum)
		r.readAmount(field+".step", name, of.Step, t.Step)
		if limit, capped := t.Cap[name]; capped && limit > 0 && max(t.Minimum[name], t.Step[name]) > limit {
			r.refuseField("%s.cap: %s is less than minimum or step, so nothing would be lent: raise it, or set a cap of 0 to lend nothing", field, of.Cap)
		}
		if of.OverSubscription != "" {
			ratios, err := quantity.ParseRatios(map[string]string{key: of.OverSubscription})
			if err != nil {
				r.refuseField("%s.overSubscription: %w", field, err)
			}
			t.Ratios = t.Ratios.With(name, ratios[name])
		}
	}
	return t
}

var isPercent = regexp.MustCompile(`^([0-9]{1,2}|100)%?$`)

// readPercent parses a whole number, with or without a percent sign.
func (r *reader) readPercent(field, text string, unset int64) int64 {
	if text == "" {
		return unset
	}
	if !isPercent.MatchString(text) {
		r.refuseField("%s: %.40q is not a percentage: give a whole number from 0 to 100, for example 80", field, text)
		return unset
	}
	percent, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64) // matched just above
	return percent
}

// readHeadroom sets the headroom of one resource, a percentage or an amount, which replaces the
// general one.
func (r *reader) readHeadroom(field string, name corev1.ResourceName, text string, t *offering.Rules) {
	if strings.HasSuffix(text, "%") {
		t.HeadroomShare.Of[name] = r.readPercent(field, text, 0)
	} else if text != "" {
		t.HeadroomShare.Of[name] = 0
		r.readAmount(field, name, text, t.Headroom)
	}
}

func (r *reader) readAmount(field string, name corev1.ResourceName, text string, into quantity.Amounts) {
	if text == "" {
		return
	}
	amounts, err := wire.ToAmounts(v1.Amounts{string(name): text})
	if err != nil {
		r.refuseField("%s: %w", field, err)
		return
	}
	into[name] = amounts[name]
}
