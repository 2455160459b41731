package view

import (
	"strings"

	"github.com/shopspring/decimal"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// Comparison is what reserved capacity would have cost at another price, and what was paid for it. Both cover only the
// capacity for which the other price is known.
type Comparison struct{ Cost, Paid money.Sum }

func (c *Comparison) add(d Comparison) { c.Cost, c.Paid = c.Cost.Plus(d.Cost), c.Paid.Plus(d.Paid) }

// saved returns Cost − Paid, which is negative if more was paid. It returns "" if nothing was compared.
func (c Comparison) saved() string {
	if c == (Comparison{}) {
		return ""
	}
	return c.Cost.Money().Sub(c.Paid.Money()).String()
}

// replacePaid returns paid − c.Paid + c.Cost: the amount paid, with the compared part at the other price.
func (c Comparison) replacePaid(paid money.Sum) decimal.Decimal {
	return paid.Minus(c.Paid).Plus(c.Cost).Money()
}

// Savings say how much less was paid than two other prices would have cost, as decimals with at most nine places. They
// are negative if more was paid, and "" if the other price was not known.
type Savings struct {
	// Dearest compares each placement with the most expensive candidate that could have served it.
	Dearest string `json:"dearest,omitempty"`
	// List compares with BrokerConfig.spec.accounts.listPrice.
	List string `json:"list,omitempty"`
}

func (s *AccountSums) saved() Savings { return Savings{s.Dearest.saved(), s.List.saved()} }

// describe returns a sentence about savings in a currency, "" if there is nothing to compare.
func (s Savings) describe(currency string) string {
	var parts []string
	add := func(text, against string) {
		amount, err := decimal.NewFromString(text)
		if err != nil {
			return
		}
		what := " less than "
		if amount.IsNegative() {
			what = " more than "
		}
		parts = append(parts, shortMoney(amount.Abs().String())+" "+currency+what+against)
	}
	add(s.Dearest, "on the most expensive clusters that could have served the requests")
	add(s.List, "at the list price")
	if len(parts) == 0 {
		return ""
	}
	return "the total cost is " + strings.Join(parts, ", and ")
}
