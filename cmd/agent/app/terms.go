package app

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Bounds of what a cluster says of itself; the schema of the Advertisement says the same.
const (
	maxLabels     = 64
	maxNodeLabels = 16
)

var (
	isPrice    = regexp.MustCompile(`^[0-9]{1,9}([.][0-9]{1,9})?$`)
	isCurrency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// checkTerms refuses what the Advertisement could not hold: the agent would say nothing
// at all because of it.
func (o *options) checkTerms() error {
	if err := wire.CheckLabels("--cluster-labels", o.labels, maxLabels); err != nil {
		return err
	}
	if err := wire.CheckClaims("--claims", o.claims, maxLabels); err != nil {
		return err
	}
	keys := map[string]string{}
	for _, key := range o.nodeLabels {
		keys[key] = ""
	}
	if err := wire.CheckLabels("--node-labels", keys, maxNodeLabels); err != nil {
		return err
	}
	if _, err := quantity.ParseRatios(o.overSubscription); err != nil {
		return fmt.Errorf("--over-subscription: %w", err)
	}
	prices := map[string]string{
		"--cpu-cost": o.prices.CPUCost, "--memory-cost": o.prices.MemoryCost,
		"--storage-cost": o.prices.StorageCost, "--egress-cost": o.prices.EgressCost,
	}
	for name, price := range o.resourceCosts {
		prices["--resource-costs: "+name] = price
	}
	for _, flag := range slices.Sorted(maps.Keys(prices)) {
		if price := prices[flag]; price != "" && !isPrice.MatchString(price) {
			return fmt.Errorf("%s: %q is no price: give a decimal number with at most nine digits before and after the point, for example 0.05", flag, price)
		}
	}
	switch cost := o.cost(); {
	case cost != nil && cost.Currency == "":
		return errors.New("--currency is missing: prices mean nothing without one, give an ISO 4217 code such as EUR")
	case cost != nil && !isCurrency.MatchString(cost.Currency):
		return fmt.Errorf("--currency: %q is not an ISO 4217 code such as EUR", cost.Currency)
	}
	return nil
}

// ratios are those that checkTerms let pass.
func (o *options) ratios() quantity.Ratios {
	ratios, _ := quantity.ParseRatios(o.overSubscription)
	return ratios
}

// cost is nil where no flag names a price.
func (o *options) cost() *brokerv1alpha1.Cost {
	cost := o.prices
	for name, price := range o.resourceCosts {
		if cost.ResourceCosts == nil {
			cost.ResourceCosts = map[corev1.ResourceName]brokerv1alpha1.Price{}
		}
		cost.ResourceCosts[corev1.ResourceName(name)] = brokerv1alpha1.Price(price)
	}
	if reflect.ValueOf(cost).IsZero() {
		return nil
	}
	return &cost
}
