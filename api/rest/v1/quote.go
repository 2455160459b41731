package v1

// QuotedCandidate is a candidate in the answer to a request for a quote.
type QuotedCandidate struct {
	Candidate
	// PriceTotal is the price for the whole duration of the request. It is empty if the candidate
	// has no price.
	PriceTotal string `json:"priceTotal,omitempty"`
}
