package requirements

import (
	"errors"
	"fmt"
	"strings"
)

// Claim is a parsed requirement for a claim, which is a statement of a provider about itself,
// such as its availability.
type Claim struct {
	// Relation says how the claimed value must compare with Value. If it is empty, any value
	// meets the requirement.
	Relation Relation
	Value    string
}

// Relation compares a claimed value with the required one.
type Relation string

// Relations of a Claim. AtLeast and AtMost compare decimal numbers; a claimed value that is not a
// decimal number does not meet the requirement.
const (
	Equal   Relation = "="
	AtLeast Relation = ">="
	AtMost  Relation = "<="
)

// ErrClaim is wrapped by every error of ParseClaim.
var ErrClaim = errors.New("not a requirement of a claim")

// ParseClaim parses a requirement for a claim: a value that must be claimed exactly, or >= or <=
// with a decimal number. An empty text accepts any claimed value. A text that begins with another
// operator is an error, because it is probably a mistake.
func ParseClaim(text string) (Claim, error) {
	c := Claim{Value: text}
	switch {
	case text == "":
	case strings.HasPrefix(text, string(AtLeast)):
		c.Relation = AtLeast
	case strings.HasPrefix(text, string(AtMost)):
		c.Relation = AtMost
	case strings.ContainsRune("<>=!~", rune(text[0])):
		return c, fmt.Errorf("%q is %w: write a value, or >= or <= and a decimal number, for example >=99.9", text, ErrClaim)
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

// String returns the requirement as ParseClaim reads it.
func (c Claim) String() string {
	if c.Relation == Equal {
		return c.Value
	}
	return string(c.Relation) + c.Value
}

// MetBy reports whether the claimed value meets the requirement.
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
