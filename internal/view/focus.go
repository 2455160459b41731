package view

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// focusColumns are the columns of the dataset. First come those columns of FOCUS 1.2 (https://focus.finops.org) that
// this product can fill, sorted by name, and then columns of its own. An empty text is a null.
var focusColumns = []focusColumn{
	{"BilledCost", func(c *focusCharge) string { return c.cost.String() }},
	{"BillingAccountId", func(c *focusCharge) string { return c.row.Requester }},
	{"BillingAccountName", func(c *focusCharge) string { return c.row.Requester }},
	{"BillingCurrency", func(c *focusCharge) string { return c.row.Currency }},
	{"BillingPeriodEnd", func(c *focusCharge) string { return focusTime(startOfMonth(c.row.From).AddDate(0, 1, 0)) }},
	{"BillingPeriodStart", func(c *focusCharge) string { return focusTime(startOfMonth(c.row.From)) }},
	{"CapacityReservationId", func(c *focusCharge) string { return c.reservation }},
	{"CapacityReservationStatus", func(c *focusCharge) string { return c.status }},
	{"ChargeCategory", func(*focusCharge) string { return "Usage" }},
	{"ChargeClass", func(*focusCharge) string { return "" }},
	{"ChargeDescription", (*focusCharge).describe},
	{"ChargeFrequency", func(*focusCharge) string { return "Usage-Based" }},
	{"ChargePeriodEnd", func(c *focusCharge) string { return focusTime(c.row.To) }},
	{"ChargePeriodStart", func(c *focusCharge) string { return focusTime(c.row.From) }},
	{"ConsumedQuantity", func(c *focusCharge) string { return c.quantity.String() }},
	{"ConsumedUnit", func(c *focusCharge) string { return focusUnit(c.row.Resource) }},
	{"ContractedCost", func(c *focusCharge) string { return c.cost.String() }},
	{"EffectiveCost", func(c *focusCharge) string { return c.cost.String() }},
	{"InvoiceIssuerName", func(c *focusCharge) string { return c.row.Provider }},
	{"ListCost", func(c *focusCharge) string { return c.cost.String() }},
	{"PricingQuantity", func(c *focusCharge) string { return c.quantity.String() }},
	{"PricingUnit", func(c *focusCharge) string { return focusUnit(c.row.Resource) }},
	{"ProviderName", func(c *focusCharge) string { return c.row.Provider }},
	{"PublisherName", func(c *focusCharge) string { return c.row.Provider }},
	{"ServiceCategory", func(c *focusCharge) string { return serviceOf(c.row.Resource).category }},
	{"ServiceName", func(c *focusCharge) string { return serviceOf(c.row.Resource).name }},
	{"ServiceSubcategory", func(c *focusCharge) string { return serviceOf(c.row.Resource).subcategory }},
	{"SubAccountId", func(c *focusCharge) string { return c.row.Requester + "/" + c.row.Tenant }},
	{"SubAccountName", func(c *focusCharge) string { return c.row.Tenant }},
	{"x_CostAtListPrice", func(c *focusCharge) string { return c.list.String() }},
	{"x_CostOnDearest", func(c *focusCharge) string { return c.dearest.String() }},
	{"x_Observed", func(c *focusCharge) string { return c.observed }},
	{"x_Resource", func(c *focusCharge) string { return string(c.row.Resource) }},
}

type focusColumn struct {
	name string
	of   func(*focusCharge) string
}

// focusCharge is one row of the dataset: the used, unused or unobserved part of a resource that an account reserved in
// one period, or the transfer of its data.
type focusCharge struct {
	row *AccountRow
	// reservation is the CapacityReservationId, and status is Used or Unused. Both are "" for a charge without a
	// reservation, such as the transfer of data.
	reservation, status string
	// observed is "true", or "false" for the part whose use is unknown, which has status Unused. It is "" without a
	// reservation.
	observed       string
	cost, quantity decimal.Decimal
	// list is what the charge would have cost at the list price, and dearest what it would have cost on the most
	// expensive candidates. Capacity for which such a price is not known counts with its actual cost.
	list, dearest decimal.Decimal
}

// WriteFocus writes rows of ended periods as a FOCUS dataset. It leaves out rows without a price. journal is the ID of
// the broker's journal. WriteFocus returns the first error of the writer.
//
// The accounts add up all reservations of one tenant, requester, provider and currency. So one CapacityReservationId
// stands for all capacity of a tenant and requester on a provider. For each of its rows, the costs and quantities of
// the parts Used and Unused add up to what was reserved.
func WriteFocus(out io.Writer, rows []AccountRow, journal string) error {
	to := csv.NewWriter(out)
	record := make([]string, len(focusColumns))
	for i, column := range focusColumns {
		record[i] = column.name
	}
	if err := to.Write(record); err != nil {
		return fmt.Errorf("writing the names of the columns: %w", err)
	}
	for i := range rows {
		for _, charge := range chargesOf(&rows[i], journal) {
			for j, column := range focusColumns {
				record[j] = noFormula(column.of(&charge))
			}
			if err := to.Write(record); err != nil {
				return fmt.Errorf("writing a charge of %s: %w", rows[i].Requester, err)
			}
		}
	}
	to.Flush()
	return to.Error()
}

// noFormula returns text so that a spreadsheet takes it for no formula. Requesters choose the names of tenants.
func noFormula(text string) string {
	if strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}

// chargesOf divides a row into charges. It returns none for a row without a price. It rounds each cost and quantity
// down to nine places and adds the rest to the last charge, so that they add up exactly.
func chargesOf(row *AccountRow, journal string) (charges []focusCharge) {
	if row.Currency == "" {
		return nil
	}
	cost := row.Money.Money()
	list, dearest := row.List.replacePaid(row.Money), row.Dearest.replacePaid(row.Money)
	if row.Held.IsZero() {
		return []focusCharge{{row: row, cost: cost, list: list, dearest: dearest, quantity: decimal.NewFromInt(1)}}
	}
	reservation := "urn:liqo-resource-broker:" + journal + ":" + row.Provider + ":" + row.Requester + ":" + row.Tenant
	hours := HoursOf(row.Resource, row.Held)
	costLeft, hoursLeft, listLeft, dearestLeft := cost, hours, list, dearest
	for _, part := range []struct {
		status, observed string
		amount           money.Sum
	}{
		{"Used", "true", row.Used},
		{"Unused", "true", row.Held.Minus(row.Used).Minus(row.Unobserved)},
		{"Unused", "false", row.Unobserved},
	} {
		if part.amount.IsZero() {
			continue
		}
		c := focusCharge{row: row, reservation: reservation, status: part.status, observed: part.observed, cost: shareDown(cost, part.amount, row.Held), quantity: shareDown(hours, part.amount, row.Held)}
		c.list, c.dearest = shareDown(list, part.amount, row.Held), shareDown(dearest, part.amount, row.Held)
		costLeft, hoursLeft = costLeft.Sub(c.cost), hoursLeft.Sub(c.quantity)
		listLeft, dearestLeft = listLeft.Sub(c.list), dearestLeft.Sub(c.dearest)
		charges = append(charges, c)
	}
	last := &charges[len(charges)-1]
	last.cost, last.quantity = last.cost.Add(costLeft), last.quantity.Add(hoursLeft)
	last.list, last.dearest = last.list.Add(listLeft), last.dearest.Add(dearestLeft)
	return charges
}

// shareDown returns total × part ÷ whole, rounded down to nine places.
func shareDown(total decimal.Decimal, part, whole money.Sum) decimal.Decimal {
	units := new(big.Int).Mul(total.Shift(money.Places).BigInt(), part.Int())
	return decimal.NewFromBigInt(units.Quo(units, whole.Int()), -money.Places)
}

func (c *focusCharge) describe() string {
	if c.row.Resource == transfer {
		return "transfer of data from another region"
	}
	text := map[string]string{"Used": "used", "Unused": "not used"}[c.status]
	if c.observed == "false" {
		text = "use not observed"
	}
	return fmt.Sprintf("%s of %s reserved on %s, %s", c.row.Resource, c.row.Requester, c.row.Provider, text)
}

// focusTime formats a time as FOCUS requires: ISO 8601 in UTC.
func focusTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

func startOfMonth(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// focusUnit returns a unit in the form that FOCUS recommends.
func focusUnit(name corev1.ResourceName) string {
	switch {
	case name == transfer:
		return "Charges"
	case name == corev1.ResourceCPU:
		return "Core-Hours"
	case quantity.InBytes(name):
		return "GiB-Hours"
	}
	return "Unit-Hours"
}

// service is the name and the classification in FOCUS of what is charged.
type service struct{ name, category, subcategory string }

func serviceOf(name corev1.ResourceName) service {
	switch name {
	case transfer:
		return service{"Data transfer", "Networking", "Other (Networking)"}
	case corev1.ResourceStorage:
		return service{"Storage of data", "Storage", "Other (Storage)"}
	}
	return service{"Reserved capacity", "Compute", "Other (Compute)"}
}
