package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestEveryAmountHasAUnit(t *testing.T) {
	cases := map[string]struct {
		list corev1.ResourceList
		want string
	}{
		"cpu, memory, then the rest by name": {amounts("pods", "3", "nvidia.com/gpu", "2", "memory", "4Gi", "cpu", "2"), "2 cores, 4 GiB memory, 2 nvidia.com/gpu, 3 pods"},
		"one core":                           {amounts("cpu", "1"), "1 core"},
		"parts of a core":                    {amounts("cpu", "1250m"), "1.25 cores"},
		"no amounts":                         {nil, "nothing"},
		"bytes with one digit":               {amounts("memory", "1945Gi"), "1.9 TiB memory"},
		"bytes just below a unit":            {amounts("memory", "1048575Ki"), "1 GiB memory"},
		"few bytes":                          {amounts("memory", "100"), "100 B memory"},
		"storage":                            {amounts("ephemeral-storage", "10Gi"), "10 GiB ephemeral-storage"},
		"an amount beyond what is accepted":  {amounts("cpu", "2", "memory", "16Ei"), "2 cores"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FormatAmounts(tc.list)); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBarShowsShares(t *testing.T) {
	cases := map[string]struct {
		reserved, own, whole int64
		want                 string
	}{
		"half and a quarter":         {50, 25, 100, "#####===.."},
		"nothing used":               {0, 0, 100, ".........."},
		"a small share is seen":      {1, 0, 1000, "#........."},
		"more than all":              {150, 50, 100, "##########"},
		"reserved pushes own out":    {100, 50, 100, "##########"},
		"own fills what is left":     {50, 100, 100, "#####====="},
		"nothing to divide":          {0, 0, 0, "          "},
		"a negative share is hidden": {-5, 10, 100, "=........."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Bar(10, tc.reserved, tc.own, tc.whole)); diff != "" {
				t.Errorf("bar (-want +got):\n%s", diff)
			}
		})
	}
}
