// Package requirements reads and checks what requests require of a cluster, and compares these
// requirements with the labels, claims and taints of clusters.
package requirements

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// OrNil returns a pointer to r, or nil if r requires nothing. This saves memory: the broker keeps
// the requirements of every reservation, and most are empty.
func OrNil(r brokerv1alpha1.Requirements) *brokerv1alpha1.Requirements {
	if r.Group == "" && r.Constraints == nil && len(r.PodShapes) == 0 && r.Data == nil {
		return nil
	}
	return &r
}

// PodAmounts returns what one pod of a shape requests. Read must have accepted the shape.
func PodAmounts(p *brokerv1alpha1.PodShape) quantity.Amounts {
	out := make(quantity.Amounts, len(p.Resources))
	for name, q := range p.Resources {
		out[name] = quantity.Base(name, q)
	}
	return out
}

// SumPods returns what the pods of all shapes request together. Read must have accepted the shapes.
func SumPods(shapes []brokerv1alpha1.PodShape) quantity.Amounts {
	var sum quantity.Amounts
	for i := range shapes {
		sum = sum.Add(PodAmounts(&shapes[i]).Times(int64(shapes[i].Count)))
	}
	return sum
}

// CheckPods returns an error if the pods of all shapes together request more of a resource than
// amounts contain. Resources that amounts do not name are not compared. Read must have accepted the
// shapes.
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

// DataBytes returns the size of the data in bytes; 0 for nil. Read must have accepted the data.
func DataBytes(d *brokerv1alpha1.DataVolume) int64 {
	if d == nil {
		return 0
	}
	return quantity.Base(corev1.ResourceStorage, d.Volume)
}

// UnboundedFor is how long a reservation without a duration is assumed to last when one-time costs
// are spread over its hours.
const UnboundedFor = 24 * time.Hour

// dataLabel is the prefix of the labels that list which data sets a cluster has.
const dataLabel = "data.broker.fluidos.eu/"

// DataLabel returns the key of the label that clusters with a data set have.
func DataLabel(dataSet string) string { return dataLabel + dataSet }
