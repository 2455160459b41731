package v1

// QuotedCandidate is a candidate of a quote.
type QuotedCandidate struct {
	Candidate
	// PriceTotal is the price for all hours, "" for a candidate without a price.
	PriceTotal string `json:"priceTotal,omitempty"`
}
