// Package offers reads and checks what clusters offer, and compares offers with earlier ones.
package offers

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Read returns the offer in an advertisement, or an error if a value cannot be read or Check refuses
// the offer.
func Read(adv *v1.Advertisement) (*ledger.Offer, error) {
	offer := &ledger.Offer{
		ClusterID: adv.ClusterID, ClusterName: adv.ClusterName, Endpoint: adv.EndpointURL,
		Region: adv.Topology.Region, Zone: adv.Topology.Zone, Agent: true,
		Labels: adv.Labels, Claims: adv.Claims, Lending: wire.ToLending(adv.Lending).OrNil(),
	}
	var err error
	if offer.Capacity, err = wire.ToAmounts(adv.Capacity); err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	if offer.Allocatable, err = wire.ToAmounts(adv.Allocatable); err != nil {
		return nil, fmt.Errorf("allocatable: %w", err)
	}
	if offer.Allocated, err = wire.ToAmounts(adv.Allocated); err != nil {
		return nil, fmt.Errorf("allocated: %w", err)
	}
	if offer.OverSubscription, err = quantity.ParseRatios(adv.OverSubscription); err != nil {
		return nil, fmt.Errorf("overSubscription: %w", err)
	}
	for _, u := range adv.Usage {
		used, err := wire.ToAmounts(u.Used)
		if err != nil {
			return nil, fmt.Errorf("usage of %s-%d: %w", u.Reservation, u.Placement, err)
		}
		if offer.Used == nil {
			offer.Used = map[string]quantity.Amounts{}
		}
		offer.Used[brokerv1alpha1.PlacementName(u.Reservation, u.Placement)] = used
	}
	if offer.Shapes, err = readShapes(adv.NodeShapes); err != nil {
		return nil, fmt.Errorf("node shape: %w", err)
	}
	if e := adv.Elastic; e != nil {
		offer.Elastic = &ledger.Elastic{ReadyWithin: time.Duration(e.ReadyWithinSeconds * float64(time.Second))}
		if offer.Elastic.Amounts, err = wire.ToAmounts(e.Amounts); err != nil {
			return nil, fmt.Errorf("elastic: %w", err)
		}
		if offer.Elastic.Nodes, err = readShapes(e.Nodes); err != nil {
			return nil, fmt.Errorf("elastic nodes: %w", err)
		}
	}
	if !reflect.DeepEqual(adv.Cost, v1.Cost{}) {
		offer.Cost = &adv.Cost
	}
	return offer, Check(offer)
}

func readShapes(in []v1.NodeShape) (out []quantity.NodeShape, err error) {
	for _, s := range in {
		free, err := wire.ToAmounts(s.Free)
		if err != nil {
			return nil, err
		}
		out = append(out, quantity.NodeShape{Count: int64(s.Count), Free: free, Labels: s.NodeLabels, Taints: s.Taints})
	}
	return out, nil
}

// Check returns an error for an offer with impossible or excessive values.
func Check(o *ledger.Offer) error {
	if o.Capacity.IsZero() && !o.Allocatable.IsZero() {
		return fmt.Errorf("allocatable is given but capacity is empty")
	}
	for _, name := range o.Allocatable.Names() {
		if o.Allocatable[name] > o.Capacity[name] {
			return fmt.Errorf("allocatable %s %s is more than the capacity %s", name,
				quantity.Format(name, o.Allocatable[name]), quantity.Format(name, o.Capacity[name]))
		}
	}
	return cmp.Or(checkAddress(o.Endpoint), checkWords(o), checkLending(o.Lending), checkCost(o.Cost))
}

// checkWords returns an error for labels, taints and claims that no request could name, or if there
// are too many.
func checkWords(o *ledger.Offer) error {
	if err := requirements.CheckLabels("labels", o.Labels, maxWords); err != nil {
		return err
	}
	for _, s := range o.AllShapes() {
		if err := requirements.CheckLabels("labels of nodes", s.Labels, maxNodeLabels); err != nil {
			return err
		}
		if err := requirements.CheckTaints("taints of nodes", s.Taints); err != nil {
			return err
		}
	}
	return requirements.CheckClaims("claims", o.Claims, maxWords)
}

// maxNamed is how many clusters a cluster's lending policy may allow, and how many it may deny.
const maxNamed = 512

func checkLending(l *lending.Policy) error {
	if l == nil || max(len(l.Allow), len(l.Deny)) <= maxNamed {
		return nil
	}
	return fmt.Errorf("lending: %d clusters are allowed and %d denied: name at most %d of each", len(l.Allow), len(l.Deny), maxNamed)
}

const (
	// maxWords is how many labels a cluster may have, and how many claims.
	maxWords = 64
	// maxNodeLabels is how many labels nodes of one shape may have.
	maxNodeLabels = 16
)

// The schema of ClusterAdvertisement has the same limits for addresses and prices, and for the
// number of prices (maxPrices).
var (
	objectPrice   = regexp.MustCompile(`^[0-9]{1,9}([.][0-9]{1,9})?$`)
	objectAddress = regexp.MustCompile(`^https://([A-Za-z0-9._-]+|[[][0-9A-Fa-f:.]+[]])(:([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[A-Za-z0-9._~%/-]*)?$`)
)

const maxPrices = 32

// checkAddress checks the address of an API server, which may be empty.
func checkAddress(endpoint string) error {
	if endpoint == "" || objectAddress.MatchString(endpoint) {
		return nil
	}
	return fmt.Errorf("endpointURL %q: give an https:// address without user name, password, query or fragment, and with a port up to 65535", message.Clip(endpoint, 100))
}

func checkCost(c *brokerv1alpha1.Cost) error {
	if c == nil {
		return nil
	}
	prices := money.PricesOf(c)
	prices["storage for data"], prices["egress"] = brokerv1alpha1.Price(c.StorageCost), brokerv1alpha1.Price(c.EgressCost)
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if text := prices[name]; text != "" {
			if _, err := money.ParsePrice(string(text)); err != nil {
				return fmt.Errorf("price of %s: %w", name, err)
			}
			if !objectPrice.MatchString(string(text)) {
				return fmt.Errorf("price of %s: %q: write at most nine digits before and, after a point, one to nine digits, for example 0.05", name, text)
			}
		}
	}
	if len(c.ResourceCosts) > maxPrices {
		return fmt.Errorf("prices of %d extended resources: name at most %d", len(c.ResourceCosts), maxPrices)
	}
	if c.Currency != "" && !money.IsCurrency(c.Currency) {
		return fmt.Errorf("currency %q is not an ISO 4217 code such as EUR", message.Clip(c.Currency, 10))
	}
	return nil
}
