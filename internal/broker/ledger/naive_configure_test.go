package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// stretchAmount returns how much may be promised of an offered amount. With over-subscription it is
// more than the amount.
func (n *naive) stretchAmount(amount int64, resource corev1.ResourceName, o *Offer) int64 {
	offered, ceiling := o.OverSubscription[resource], n.ceilings[resource]
	if offered == 0 || ceiling == 0 {
		return amount
	}
	product := new(big.Int).Mul(big.NewInt(amount), big.NewInt(min(offered, ceiling)))
	return product.Div(product, big.NewInt(100)).Int64()
}

// anyCeilings sets or removes the ceiling of CPU, and changes other settings.
func (m *machine) anyCeilings(c choose) Event {
	e := Event{Change: &Configure{}}
	if c(3) > 0 {
		e.Change.(*Configure).OverSubscription = quantity.Ratios{corev1.ResourceCPU: int64(101 + c(150))}
	}
	e.Change.(*Configure).Difference = anyDifference(c)
	return e
}

// anyDifference returns a patch that changes, adds or removes settings, or does nothing.
func anyDifference(c choose) json.RawMessage {
	return json.RawMessage(oneOf(c,
		"", "{}", `{"headroom":10}`, `{"headroom":20,"queue":{"maxLength":5}}`, `{"queue":{"maxLength":null,"defaultTimeout":"1h"}}`,
		`{"queue":null}`, `{"queue":7}`, `{"approvedClusters":{"rome":"a"}}`, `{"approvedClusters":{"rome":null,"paris":""}}`,
	))
}

// configure notes the ceilings, and the settings as a map from paths to values.
func (n *naive) configure(change *Configure) {
	n.ceilings = change.OverSubscription
	patch := map[string]any{}
	if len(change.Difference) > 0 && json.Unmarshal(change.Difference, &patch) != nil {
		panic("an accepted difference is no object")
	}
	n.set("", patch)
}

func (n *naive) set(path string, patch map[string]any) {
	for key, value := range patch {
		at := path + "/" + key
		within, isObject := value.(map[string]any)
		for known := range n.settings {
			if known == at || !isObject && strings.HasPrefix(known, at+"/") {
				delete(n.settings, known)
			}
		}
		if value == nil {
			continue
		}
		if n.settings[at] = "{}"; isObject {
			n.set(at, within)
		} else {
			n.settings[at] = fmt.Sprint(value)
		}
	}
}

// settingsDiffer returns an error if the book has other settings.
func (n *naive) settingsDiffer(s *State) error {
	document := map[string]any{}
	if text := s.Configuration().Document; text != nil {
		if err := json.Unmarshal(text, &document); err != nil {
			return err
		}
	}
	other := &naive{settings: map[string]string{}}
	other.set("", document)
	if !maps.Equal(n.settings, other.settings) {
		return fmt.Errorf("the configuration is %v, want %v", other.settings, n.settings)
	}
	return nil
}
