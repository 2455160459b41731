package quantity

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Ratios are over-subscription ratios by resource, in hundredths: with 150, a cluster may
// promise one and a half times its capacity. A missing resource has the ratio 1. The nil map
// can be used.
type Ratios map[corev1.ResourceName]int64

const (
	// once is the ratio 1, with which capacity is promised only once.
	once = 100
	// mostTimes is the highest accepted ratio.
	mostTimes = 10 * once
)

var isRatio = regexp.MustCompile(`^[0-9]{1,2}([.][0-9]{1,2})?$`)

// overSubscribable lists the resources that may be over-subscribed. Devices are not among
// them, because two users cannot share a device.
var overSubscribable = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods,
}

// ParseRatios reads ratios as decimal numbers from 1 to 10 with at most two decimal places. It
// omits ratios of 1, so that maps with the same meaning are equal.
func ParseRatios[K, V ~string](texts map[K]V) (Ratios, error) {
	var out Ratios
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		resource := corev1.ResourceName(name)
		if !slices.Contains(overSubscribable, resource) {
			return nil, fmt.Errorf("%q cannot be over-subscribed: use cpu, memory, ephemeral-storage or pods", resource)
		}
		ratio, err := parseRatio(string(texts[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource, err)
		}
		if ratio == once {
			continue
		}
		if out == nil {
			out = Ratios{}
		}
		out[resource] = ratio
	}
	return out, nil
}

func parseRatio(text string) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	hundredths, err := strconv.ParseInt(whole+(part + "00")[:2], 10, 64)
	if !isRatio.MatchString(text) || err != nil || hundredths < once || hundredths > mostTimes {
		return 0, fmt.Errorf("%.20q is not a ratio: give a decimal number from 1 to 10 with at most two places, for example 1.5", text)
	}
	return hundredths, nil
}

// Texts returns the ratios as decimal numbers, as ParseRatios reads them.
func (r Ratios) Texts() map[corev1.ResourceName]string {
	if len(r) == 0 {
		return nil
	}
	out := make(map[corev1.ResourceName]string, len(r))
	for name, ratio := range r {
		text := fmt.Sprintf("%d.%02d", ratio/once, ratio%once)
		out[name] = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return out
}

// Check returns an error for ratios that ParseRatios cannot have returned.
func (r Ratios) Check() error {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if ratio := r[name]; ratio <= once || ratio > mostTimes || !slices.Contains(overSubscribable, name) {
			return fmt.Errorf("ratio %d/%d of %s, want above 1 and at most 10, of a resource that can be over-subscribed", ratio, once, name)
		}
	}
	return nil
}

// With returns a copy of r in which one resource has the given ratio. A ratio of 1 or less
// removes the resource.
func (r Ratios) With(name corev1.ResourceName, ratio int64) Ratios {
	out := maps.Clone(r)
	if ratio <= once {
		delete(out, name)
		return out
	}
	if out == nil {
		out = Ratios{}
	}
	out[name] = ratio
	return out
}

// Within returns r with every ratio reduced to its ceiling. A resource without a ceiling gets
// the ratio 1.
func (r Ratios) Within(ceilings Ratios) Ratios {
	var out Ratios
	for name, ratio := range r {
		if ceiling := ceilings[name]; ceiling > once {
			if out == nil {
				out = Ratios{}
			}
			out[name] = min(ratio, ceiling)
		}
	}
	return out
}

// Stretched returns a multiplied by ratios. It rounds down to whole base units and reduces
// results to Limit. If ratios is empty, it returns a itself and not a copy.
func (a Amounts) Stretched(ratios Ratios) Amounts {
	if len(ratios) == 0 {
		return a
	}
	out := a.Clone()
	for name, ratio := range ratios {
		if amount, ok := out[name]; ok {
			out[name] = min(addSaturating(mulSaturating(amount/once, ratio), amount%once*ratio/once), Limit)
		}
	}
	return out
}
