// Package terms holds what a reservation asks of its provider beside amounts, as
// values that the decision reads and the ledger keeps: a provider that is chosen
// later, in place of the first, has to meet the same terms.
package terms

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Terms of one reservation; the zero Terms ask nothing. They are kept in the journal:
// a field keeps its name and meaning.
type Terms struct {
	// Group is the name by which Affinity and AntiAffinity of the requester's other
	// reservations know this one.
	Group       string       `json:"group,omitempty"`
	Constraints *Constraints `json:"constraints,omitempty"`
	// Pods must fit on the provider's nodes beside each other.
	Pods []Pods `json:"pods,omitempty"`
	Data *Data  `json:"data,omitempty"`
}

// OrNil is a pointer to t, nil where it asks nothing: most ask nothing, and a book keeps
// the terms of all.
func (t Terms) OrNil() *Terms {
	if t.Group == "" && t.Constraints == nil && len(t.Pods) == 0 && t.Data == nil {
		return nil
	}
	return &t
}

// Constraints on the provider. What is left out does not restrict.
type Constraints struct {
	Regions  []string  `json:"regions,omitempty"`
	Zones    []string  `json:"zones,omitempty"`
	Clusters *Selector `json:"clusters,omitempty"`
	// Include are the only clusters wanted, Exclude those that are not.
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Nodes are labels: only nodes that have them all count as free.
	Nodes map[string]string `json:"nodes,omitempty"`
	// Affinity and AntiAffinity name groups of the requester's reservations.
	Affinity     []string `json:"affinity,omitempty"`
	AntiAffinity []string `json:"antiAffinity,omitempty"`
	// DataSet is what the provider must have, see DataLabel.
	DataSet  string  `json:"dataSet,omitempty"`
	MaxPrice *Money  `json:"maxPrice,omitempty"`
	Claims   []Claim `json:"claims,omitempty"`
}

// Money is an amount of a currency.
type Money struct {
	// Amount is a plain decimal number.
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// Pods are so many pods of this size each.
type Pods struct {
	Count int64            `json:"count"`
	Each  quantity.Amounts `json:"each"`
}

// Sum is what all pods need together, saturating.
func Sum(pods []Pods) quantity.Amounts {
	var sum quantity.Amounts
	for _, p := range pods {
		sum = sum.Add(p.Each.Times(p.Count))
	}
	return sum
}

// Data is what the workload works on.
type Data struct {
	// Bytes of it.
	Bytes int64 `json:"bytes"`
	// Region it is in now, "" where that is not known.
	Region string `json:"region,omitempty"`
}

// UnboundedFor is how long a reservation without duration counts as held where what
// is paid once is spread over its hours.
const UnboundedFor = 24 * time.Hour

// dataLabel is the prefix of labels that name the data sets a cluster has.
const dataLabel = "data.broker.fluidos.eu/"

// DataLabel is the label of clusters that have a data set.
func DataLabel(dataSet string) string { return dataLabel + dataSet }
