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

// maxLabels is how many labels a cluster may have, and also how many claims. The schema of the
// Advertisement has the same limit.
const maxLabels = 64

// Configuration is the content of a valid configuration file.
type Configuration struct {
	// Region, Zone, Labels and Claims describe the cluster; they are empty or nil if the file does not
	// set them.
	Region, Zone   string
	Labels, Claims map[string]string
	// Nodes selects the nodes whose capacity is lent.
	Nodes labels.Selector
	// Taints lists taints. A node with one of these taints is lent only to requests that tolerate
	// the taint.
	Taints []brokerv1alpha1.Taint
	// Offer defines how much of the free capacity of these nodes is lent.
	Offer offering.Rules
	// Prices are the prices of lent capacity; nil if the file has none. If PriceLabels or OpenCost
	// is set, Prices holds only the currency and the prices that these sources do not provide.
	Prices *brokerv1alpha1.Cost
	// PriceLabels maps resources to the keys of the node labels that contain their prices; nil if the
	// file names no labels.
	PriceLabels map[corev1.ResourceName]string
	// OpenCost is the URL of OpenCost's metrics, which contain the prices of nodes; empty if the file
	// does not set it.
	OpenCost string
}

// Default returns the configuration that is in force if there is no file.
func Default() *Configuration { return &Configuration{Nodes: labels.Everything()} }

// Parse interprets a configuration file. It calls read to get files to which the configuration
// refers. Its error names every problem, with its line or field and the remedy.
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
	c.Offer.Groups = r.readGroups(f.Offer.Elastic, c.Nodes, c.Taints)
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

// reader collects all problems of a file, so that a single error can name them.
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

// readPercent parses a whole number from 0 to 100, with or without a percent sign. It returns unset
// if the text is empty or invalid, and notes an invalid text as a problem.
func (r *reader) readPercent(field, text string, unset int64) int64 {
	if text == "" {
		return unset
	}
	if !isPercent.MatchString(text) {
		r.refuseField("%s: %.40q is not a percentage: give a whole number from 0 to 100, for example 80", field, text)
		return unset
	}
	percent, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64) // isPercent has matched, so this cannot fail
	return percent
}

// readHeadroom sets the headroom of one resource, which is a percentage or an amount. For this
// resource, it replaces the headroom that applies to all resources.
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
