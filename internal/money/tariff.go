package money

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Tariff holds the prices that a cluster's offer names.
type Tariff struct {
	// Currency is an ISO 4217 code, "" if the offer names none.
	Currency string
	// PerHour holds the prices of resources for one hour. Resources without a price are not
	// billed.
	PerHour map[corev1.ResourceName]Price
	// Storage is the price of a GiB of stored data per hour. Egress is the price of a GiB of data
	// that leaves the region.
	Storage, Egress Price
}

// ReadTariff reads the prices of an offer. The broker validated them when it received the offer. A
// price that cannot be read counts as missing.
func ReadTariff(cost *brokerv1alpha1.Cost) Tariff {
	if cost == nil {
		return Tariff{}
	}
	t := Tariff{Currency: cost.Currency, PerHour: map[corev1.ResourceName]Price{}}
	for name, text := range PricesOf(cost) {
		if p, err := ParsePrice(string(text)); err == nil {
			t.PerHour[name] = p
		}
	}
	t.Storage, _ = ParsePrice(cost.StorageCost)
	t.Egress, _ = ParsePrice(cost.EgressCost)
	return t
}

// PricesOf returns the prices of resources as text, as the offer contains them. cpu and memory are
// always in the map, with "" if they have no price; another resource only if the offer names it.
func PricesOf(cost *brokerv1alpha1.Cost) map[corev1.ResourceName]brokerv1alpha1.Price {
	out := map[corev1.ResourceName]brokerv1alpha1.Price{
		corev1.ResourceCPU: brokerv1alpha1.Price(cost.CPUCost), corev1.ResourceMemory: brokerv1alpha1.Price(cost.MemoryCost),
	}
	maps.Copy(out, cost.ResourceCosts)
	return out
}

// IsPriced reports whether the tariff names a currency and at least one price.
func (t *Tariff) IsPriced() bool {
	return IsCurrency(t.Currency) && (len(t.PerHour) > 0 || t.Storage > 0 || t.Egress > 0)
}

// IsCurrency reports whether a code consists of three capital letters, as in ISO 4217. The
// broker's tables rely on this: they number currencies, and have room for all codes of this form.
func IsCurrency(code string) bool {
	for _, letter := range []byte(code) {
		if letter < 'A' || letter > 'Z' {
			return false
		}
	}
	return len(code) == 3
}
