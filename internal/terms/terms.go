// Package terms holds a reservation's requirements for its provider besides the amounts. The
// decision reads them. The ledger keeps them, because a provider that later replaces the first one
// must meet the same terms.
package terms

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Terms are the requirements of one reservation. The zero Terms require nothing. The journal stores
// them, so a field must keep its name and meaning.
type Terms struct {
	// Group is the name under which the requester's other reservations refer to this one in
	// Affinity and AntiAffinity.
	Group       string       `json:"group,omitempty"`
	Constraints *Constraints `json:"constraints,omitempty"`
	// Pods must all fit on the provider's nodes at the same time.
	Pods []Pods `json:"pods,omitempty"`
	Data *Data  `json:"data,omitempty"`
}

// OrNil returns a pointer to t, or nil if t requires nothing. This saves memory: the book keeps the
// terms of all reservations, and most are empty.
func (t Terms) OrNil() *Terms {
	if t.Group == "" && t.Constraints == nil && len(t.Pods) == 0 && t.Data == nil {
		return nil
	}
	return &t
}

// Constraints restrict the choice of the provider. An empty field does not restrict.
type Constraints struct {
	Regions  []string  `json:"regions,omitempty"`
	Zones    []string  `json:"zones,omitempty"`
	Clusters *Selector `json:"clusters,omitempty"`
	// Include lists the only eligible clusters; Exclude lists clusters that are not eligible.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Nodes are labels. Only nodes with all of these labels count as free.
	Nodes map[string]string `json:"nodes,omitempty"`
	// Affinity and AntiAffinity name groups of the requester's reservations.
	Affinity     []string `json:"affinity,omitempty"`
	AntiAffinity []string `json:"antiAffinity,omitempty"`
	// DataSet is a data set that the provider must have, see DataLabel.
	DataSet  string  `json:"dataSet,omitempty"`
	MaxPrice *Money  `json:"maxPrice,omitempty"`
	Claims   []Claim `json:"claims,omitempty"`
}

// Money is an amount in a currency.
type Money struct {
	// Amount is a plain decimal number.
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// Pods describes several pods of the same size.
type Pods struct {
	Count int64            `json:"count"`
	Each  quantity.Amounts `json:"each"`
}

// Sum returns the total of all pods, saturating.
func Sum(pods []Pods) quantity.Amounts {
	var sum quantity.Amounts
	for _, p := range pods {
		sum = sum.Add(p.Each.Times(p.Count))
	}
	return sum
}

// Data is the data that the workload processes.
type Data struct {
	// Bytes is the size of the data.
	Bytes int64 `json:"bytes"`
	// Region is the present region of the data; "" if unknown.
	Region string `json:"region,omitempty"`
}

// UnboundedFor is the assumed duration of a reservation without one, for spreading one-time costs
// over hours.
const UnboundedFor = 24 * time.Hour

// dataLabel is the prefix of the labels that name a cluster's data sets.
const dataLabel = "data.broker.fluidos.eu/"

// DataLabel returns the label of clusters that have a data set.
func DataLabel(dataSet string) string { return dataLabel + dataSet }
