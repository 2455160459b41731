package ledger

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Explanation is why a provider was chosen, or why none was: candidates, best first,
// and how many were rejected for each reason. It is "" where there is none.
//
// A journal has one in every grant, and the book one for every reservation: so it is
// kept as it is written, without what all its candidates have in common,
//
//	{"by":["availability","cost"],"of":[{"c":"paris","s":"66.67 50.00 100.00","w":true}],"rejected":{"TooSmall":3}}
//
// where s is a candidate's score and those under each criterion, and w is whom nobody
// scores higher than. Records of former versions have candidates in full.
type Explanation string

// Candidate is one line of an Explanation.
type Candidate struct {
	ClusterID string            `json:"clusterID"`
	Score     string            `json:"score,omitempty"`
	Criteria  map[string]string `json:"criteria,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Message   string            `json:"message,omitempty"`
	// PricePerHour is in Currency for the whole request.
	PricePerHour string `json:"pricePerHour,omitempty"`
	Currency     string `json:"currency,omitempty"`
}

// What is said of a candidate that could provide and was not chosen.
const (
	reasonLower  = "LowerScore"
	messageLower = "another cluster scores higher"
)

// Lower is a candidate that could provide but is not the one.
func (c Candidate) Lower() Candidate {
	c.Reason, c.Message = reasonLower, messageLower
	return c
}

type explanation struct {
	By       []string         `json:"by"`
	Of       []explained      `json:"of,omitempty"`
	Rejected map[string]int32 `json:"rejected,omitempty"`
}

type explained struct {
	ClusterID string `json:"c"`
	Scores    string `json:"s,omitempty"`
	Won       bool   `json:"w,omitempty"`
	Reason    string `json:"r,omitempty"`
	Message   string `json:"m,omitempty"`
	Price     string `json:"p,omitempty"`
	Currency  string `json:"u,omitempty"`
}

// noScore stands for a criterion that has no score of a candidate.
const noScore = "-"

// Explain makes an Explanation. Scores have no spaces.
func Explain(candidates []Candidate, rejected map[string]int32) Explanation {
	out := explanation{By: []string{}, Rejected: rejected}
	for _, c := range candidates {
		for _, name := range slices.Sorted(maps.Keys(c.Criteria)) {
			if !slices.Contains(out.By, name) {
				out.By = append(out.By, name)
			}
		}
	}
	for _, c := range candidates {
		out.Of = append(out.Of, c.explained(out.By))
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings and numbers
	}
	return Explanation(text)
}

func (c Candidate) explained(by []string) explained {
	e := explained{ClusterID: c.ClusterID, Reason: c.Reason, Message: c.Message, Price: c.PricePerHour, Currency: c.Currency}
	if c.Score == "" {
		return e
	}
	scores := []string{c.Score}
	for _, name := range by {
		score := c.Criteria[name]
		if score == "" {
			score = noScore
		}
		scores = append(scores, score)
	}
	e.Scores = strings.Join(scores, " ")
	switch {
	case c.Reason == "":
		e.Won = true
	case c.Reason == reasonLower && c.Message == messageLower:
		e.Reason, e.Message = "", ""
	}
	return e
}

// Candidates are those that were explained, best first.
func (e Explanation) Candidates() []Candidate {
	read := e.read()
	out := make([]Candidate, len(read.Of))
	for i, x := range read.Of {
		out[i] = x.candidate(read.By)
	}
	return out
}

func (e explained) candidate(by []string) Candidate {
	c := Candidate{ClusterID: e.ClusterID, Reason: e.Reason, Message: e.Message, PricePerHour: e.Price, Currency: e.Currency}
	if e.Scores == "" {
		return c
	}
	scores := strings.Split(e.Scores, " ")
	c.Score = scores[0]
	for i, score := range scores[1:min(len(scores), len(by)+1)] {
		if score == noScore {
			continue
		}
		if c.Criteria == nil {
			c.Criteria = map[string]string{}
		}
		c.Criteria[by[i]] = score
	}
	if !e.Won && e.Reason == "" {
		return c.Lower()
	}
	return c
}

// Rejected counts all that were rejected, by reason.
func (e Explanation) Rejected() map[string]int32 { return e.read().Rejected }

func (e Explanation) read() (read explanation) {
	if e != "" {
		// It is JSON, see UnmarshalJSON. What is not meant explains nothing, and decides
		// nothing either.
		_ = json.Unmarshal([]byte(e), &read)
	}
	return read
}

// MarshalJSON writes it as it is.
func (e Explanation) MarshalJSON() ([]byte, error) {
	if e == "" {
		return []byte("null"), nil
	}
	return []byte(e), nil
}

// UnmarshalJSON also reads what former versions wrote. What this one writes it does not
// look into: a replay reads a hundred thousand of them.
func (e *Explanation) UnmarshalJSON(b []byte) error {
	*e = ""
	if string(b) == "null" {
		return nil
	}
	if bytes.HasPrefix(b, []byte(`{"by":`)) {
		*e = Explanation(b)
		return nil
	}
	var full struct {
		Candidates []Candidate      `json:"candidates"`
		Rejected   map[string]int32 `json:"rejected"`
	}
	if err := json.Unmarshal(b, &full); err != nil {
		return err
	}
	*e = Explain(full.Candidates, full.Rejected)
	return nil
}
