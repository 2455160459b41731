package configuration

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
)

var (
	isPrice    = regexp.MustCompile(`^[0-9]{1,9}([.][0-9]{1,9})?$`)
	isCurrency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// WithResources returns cost with additional prices of resources other than cpu and memory. It
// returns nil if the result contains neither a price nor a currency.
func WithResources(cost brokerv1alpha1.Cost, resources map[string]string) *brokerv1alpha1.Cost {
	for name, price := range resources {
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

// CheckPrice returns an error if the Advertisement would not accept text as a price.
func CheckPrice(text string) error {
	if isPrice.MatchString(text) {
		return nil
	}
	return fmt.Errorf("%.40q is not a price: give a decimal number with at most nine digits before and after the point, for example 0.05", text)
}

// checkCost returns an error for every price, resource or currency that the Advertisement would not
// accept. A nil cost is valid. where converts the name of a field of Cost to the name that users
// know.
func checkCost(cost *brokerv1alpha1.Cost, where func(field string) string) error {
	if cost == nil {
		return nil
	}
	prices := map[string]string{
		"cpuCost": cost.CPUCost, "memoryCost": cost.MemoryCost, "storageCost": cost.StorageCost, "egressCost": cost.EgressCost,
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(cost.ResourceCosts)) {
		prices["resourceCosts."+string(name)] = string(cost.ResourceCosts[name])
		if err := quantity.CheckName(name); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", where("resourceCosts"), err))
		}
	}
	for _, field := range slices.Sorted(maps.Keys(prices)) {
		if err := CheckPrice(prices[field]); prices[field] != "" && err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", where(field), err))
		}
	}
	switch {
	case cost.Currency == "":
		wrong = append(wrong, fmt.Errorf("%s is missing: prices need a currency, give an ISO 4217 code such as EUR", where("currency")))
	case !isCurrency.MatchString(cost.Currency):
		wrong = append(wrong, fmt.Errorf("%s: %.40q is not an ISO 4217 code such as EUR", where("currency"), cost.Currency))
	}
	return errors.Join(wrong...)
}
