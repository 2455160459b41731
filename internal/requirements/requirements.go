// Package requirements reads and checks the requirements of requests, and matches them with the
// labels and claims of clusters.
package requirements

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// OrNil returns a pointer to r, or nil if r requires nothing. This saves memory: the book keeps the
// requirements of all reservations, and most are empty.
func OrNil(r brokerv1alpha1.Requirements) *brokerv1alpha1.Requirements {
	if r.Group == "" && r.Constraints == nil && len(r.PodShapes) == 0 && r.Data == nil {
		return nil
	}
	return &r
}

// PodAmounts returns what each pod of a shape requests. The shape must have passed Read.
func PodAmounts(p *brokerv1alpha1.PodShape) quantity.Amounts {
	out := make(quantity.Amounts, len(p.Resources))
	for name, q := range p.Resources {
		out[name] = quantity.Base(name, q)
	}
	return out
}

// SumPods returns the total of all pods, saturating.
func SumPods(shapes []brokerv1alpha1.PodShape) quantity.Amounts {
	var sum quantity.Amounts
	for i := range shapes {
		sum = sum.Add(PodAmounts(&shapes[i]).Times(int64(shapes[i].Count)))
	}
	return sum
}

// CheckPods returns an error if the pods need more of a resource than amounts name. The shapes must
// have passed Read.
func CheckPods(amounts quantity.Amounts, shapes []brokerv1alpha1.PodShape) error {
	sum := SumPods(shapes)
	for _, name := range sum.Names() {
		if asked, named := amounts[name]; named && asked < sum[name] {
			return fmt.Errorf("podShapes: the pods need %s of %s in all, and resources name %s: raise that, or leave it out",
				quantity.Format(name, sum[name]), name, quantity.Format(name, asked))
		}
		if sum[name] > quantity.Limit {
			return fmt.Errorf("podShapes: the pods need more of %s than can be counted: ask for less", name)
		}
	}
	return nil
}

// DataBytes returns the size of the data, 0 for nil. The data must have passed Read.
func DataBytes(d *brokerv1alpha1.DataVolume) int64 {
	if d == nil {
		return 0
	}
	return quantity.Base(corev1.ResourceStorage, d.Volume)
}

// UnboundedFor is the assumed duration of a reservation without one, for spreading one-time costs
// over hours.
const UnboundedFor = 24 * time.Hour

// dataLabel is the prefix of the labels that name a cluster's data sets.
const dataLabel = "data.broker.fluidos.eu/"

// DataLabel returns the label of clusters that have a data set.
func DataLabel(dataSet string) string { return dataLabel + dataSet }
