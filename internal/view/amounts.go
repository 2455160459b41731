package view

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ParseAmounts parses the amounts that a user has given for resources. cpu and memory are "" if they are not given.
func ParseAmounts(cpu, memory string, others map[string]string) (corev1.ResourceList, error) {
	list, texts := corev1.ResourceList{}, map[string]string{"cpu": cpu, "memory": memory}
	maps.DeleteFunc(texts, func(_, text string) bool { return text == "" })
	maps.Copy(texts, others)
	for name, text := range texts {
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q is no amount: write it as Kubernetes does, for example 500m or 4Gi", name, text)
		}
		if err := quantity.CheckName(corev1.ResourceName(name)); err != nil {
			return nil, err
		}
		list[corev1.ResourceName(name)] = amount
	}
	return list, nil
}

// compareResources puts cpu first, then memory, then all others.
func compareResources(a, b corev1.ResourceName) int {
	rank := func(name corev1.ResourceName) int {
		return slices.Index([]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}, name)
	}
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a, b))
}

// sortedResources returns the names of all resources in the lists, cpu and memory first.
func sortedResources[V any](lists ...map[corev1.ResourceName]V) []corev1.ResourceName {
	names := map[corev1.ResourceName]bool{}
	for _, list := range lists {
		for name := range list {
			names[name] = true
		}
	}
	return slices.SortedFunc(maps.Keys(names), compareResources)
}

// FormatAmount returns an amount with its unit, for example "2.5 cores", "1.9 TiB" or "4" for GPUs. base is in
// millicores, bytes or pieces. Bytes are rounded to one digit after the point.
func FormatAmount(name corev1.ResourceName, base int64) string {
	switch {
	case name == corev1.ResourceCPU:
		cores := strconv.FormatFloat(float64(base)/1000, 'f', -1, 64)
		if base == 1000 {
			return "1 core"
		}
		return cores + " cores"
	case quantity.InBytes(name):
		return formatBytes(base)
	}
	return strconv.FormatInt(base, 10)
}

func formatBytes(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(bytes), 0
	for math.Abs(math.Round(value*10)/10) >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strconv.FormatFloat(math.Round(value*10)/10, 'f', -1, 64) + " " + units[unit]
}

// FormatAmounts lists amounts, for example "2 cores, 4 GiB memory, 1 nvidia.com/gpu". It returns "nothing" for an
// empty list.
func FormatAmounts(list corev1.ResourceList) string {
	amounts := baseAmounts(list)
	var parts []string
	for _, name := range sortedResources(amounts) {
		parts = append(parts, formatNamed(name, amounts[name]))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// formatNamed returns an amount with its unit and the name of the resource, which cores do not need.
func formatNamed(name corev1.ResourceName, base int64) string {
	return FormatAmount(name, base) + strings.TrimSuffix(" "+string(name), " cpu")
}

// baseAmounts converts a list to base units. It skips invalid amounts: objects that are older than the limits in the
// CRDs may contain them.
func baseAmounts(list corev1.ResourceList) quantity.Amounts {
	out := make(quantity.Amounts, len(list))
	setBaseAmounts(out, list)
	return out
}

// setBaseAmounts converts a list as baseAmounts does, and writes the result into amounts.
func setBaseAmounts(amounts quantity.Amounts, list corev1.ResourceList) {
	for name, value := range list {
		if amount, err := quantity.FromResource(name, value); err == nil {
			amounts[name] = amount
		}
	}
}

// percent returns part as a percentage of whole, for example "41 %". It returns "-" if whole is zero.
func percent(part, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// Bar draws how an amount is divided, in width characters: '#' is reserved, '=' is used by the cluster itself, '.' is
// free. A part above zero gets at least one character if there is room for it.
func Bar(width int, reserved, own, whole int64) string {
	if whole <= 0 || width <= 0 {
		return strings.Repeat(" ", max(width, 0))
	}
	cells := func(part int64, room int) int {
		if part <= 0 {
			return 0
		}
		return min(max(int(math.Round(float64(part)/float64(whole)*float64(width))), 1), room)
	}
	first := cells(reserved, width)
	second := cells(own, width-first)
	return strings.Repeat("#", first) + strings.Repeat("=", second) + strings.Repeat(".", width-first-second)
}
