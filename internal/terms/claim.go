package terms

import (
	"errors"
	"fmt"
	"strings"
)

// Claim is what a provider must claim of itself.
type Claim struct {
	Name string `json:"name"`
	// Relation to Value; empty means that any value will do.
	Relation Relation `json:"relation,omitempty"`
	Value    string   `json:"value,omitempty"`
}

// Relation of what is claimed to what is required.
type Relation string

// Relations of a Claim. AtLeast and AtMost compare decimal numbers: a claim that is
// none does not meet them.
const (
	Equal   Relation = "="
	AtLeast Relation = ">="
	AtMost  Relation = "<="
)

// ErrClaim is matched by every error of ParseClaim.
var ErrClaim = errors.New("not a requirement of a claim")

// ParseClaim reads what is required of a claim: a value, >= or <= and a decimal
// number, or nothing for any value.
func ParseClaim(name, text string) (Claim, error) {
	c := Claim{Name: name, Value: text}
	switch {
	case text == "":
	case strings.HasPrefix(text, string(AtLeast)):
		c.Relation = AtLeast
	case strings.HasPrefix(text, string(AtMost)):
		c.Relation = AtMost
	default:
		c.Relation = Equal
		return c, nil
	}
	if c.Relation == "" {
		return c, nil
	}
	c.Value = strings.TrimSpace(text[len(c.Relation):])
	if !isDecimal(c.Value) {
		return c, fmt.Errorf("%q is %w: write a decimal number after %s, for example %s99.9", text, ErrClaim, c.Relation, c.Relation)
	}
	return c, nil
}

// String writes the requirement as ParseClaim reads it.
func (c Claim) String() string {
	if c.Relation == Equal {
		return c.Value
	}
	return string(c.Relation) + c.Value
}

// MetBy reports whether what is claimed meets the requirement.
func (c Claim) MetBy(claimed string) bool {
	switch c.Relation {
	case AtLeast:
		return isDecimal(claimed) && compareDecimals(claimed, c.Value) >= 0
	case AtMost:
		return isDecimal(claimed) && compareDecimals(claimed, c.Value) <= 0
	case Equal:
		return claimed == c.Value
	}
	return true
}
