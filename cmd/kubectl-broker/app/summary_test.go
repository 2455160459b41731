package app

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyReservationsInOrderAreReadBriefly(t *testing.T) {
	cases := map[string]struct {
		phase, message string
		want           bool
	}{
		"active and in order":      {"Active", "virtual node res-abc-1 on paris is Ready", true},
		"over":                     {"Released", "released; everything is released", true},
		"active with a notice":     {"Active", "must make room for a request of priority 50", false},
		"active, a change refused": {"Active", "virtual node res-abc-1 on paris is Ready; refused: no room", false},
		"active, pods evicted":     {"Active", "virtual node res-abc-1 on paris is Ready; paris evicted 2 pods", false},
		"waiting":                  {"Queued", "waits for capacity", false},
		"failed":                   {"Failed", "virtual node res-abc-1 on paris is Ready", false},
		"not processed":            {"", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			table := rowTable{Columns: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Phase"}, {Name: "Requester"}, {Name: "Provider"}, {Name: "Message"}}, Rows: []row{{Cells: []any{"abc", tc.phase, "rome", nil, tc.message}}}}
			_, ordered, err := table.toReservations()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]bool{tc.want}, ordered); diff != "" {
				t.Errorf("in order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherColumnsAreNoSummary(t *testing.T) {
	table := rowTable{Columns: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Phase"}}}
	if _, _, err := table.toReservations(); !errors.Is(err, errNoColumns) {
		t.Errorf("got %v, want errNoColumns", err)
	}
}
