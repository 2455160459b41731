package decision

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the criteria.
const (
	Availability = "availability"
	Cost         = "cost"
	Latency      = "latency"
	Reliability  = "reliability"
)

// Names of the presets.
const (
	PresetAvailability  = "availability"
	PresetBalanced      = "balanced"
	PresetMultiCriteria = "multi-criteria"

	DefaultPreset = PresetBalanced
)

// Weights maps the names of criteria to their weights, in percent from 0 to 100. They need not add
// up to 100: a total is divided by the sum of the weights that count. A criterion without a weight
// does not count. Nil means the default preset.
type Weights map[string]int

// ErrWeights is matched by every error of Validate and Preset.
var ErrWeights = errors.New("invalid weights")

var presets = map[string]Weights{
	PresetAvailability: {Availability: 100},
	// Availability and cost keep the ratio 70 to 30 although reliability counts as well: weights
	// need not add up to 100.
	PresetBalanced:      {Availability: 70, Cost: 30, Reliability: 15},
	PresetMultiCriteria: {Availability: 70, Cost: 20, Latency: 5, Reliability: 5},
}

// Preset returns a copy of the weights of the preset with the given name.
func Preset(name string) (Weights, error) {
	w, ok := presets[name]
	if !ok {
		return nil, fmt.Errorf("%w: no preset is called %q: choose %s",
			ErrWeights, name, strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
	}
	return maps.Clone(w), nil
}

// Validate returns an error for unknown criteria, weights outside 0 to 100, and weights that are
// all 0. Callers of Decide and ExplainTop must pass valid weights.
func (w Weights) Validate() error {
	if w == nil {
		return nil
	}
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(w)) {
		weight := w[name]
		if !slices.Contains(Criteria(), name) {
			return fmt.Errorf("%w: no criterion is called %q: choose %s",
				ErrWeights, name, strings.Join(Criteria(), ", "))
		}
		if weight < 0 || weight > 100 {
			return fmt.Errorf("%w: %q is %d: give a percentage from 0 to 100", ErrWeights, name, weight)
		}
		sum += weight
	}
	if sum == 0 {
		return fmt.Errorf("%w: no criterion counts: give one a weight above 0", ErrWeights)
	}
	return nil
}
