package view

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// focusRule is what FOCUS 1.2 demands of the values of a column: whether they may be null, and
// their form.
type focusRule struct {
	nullable bool
	form     *regexp.Regexp
}

var (
	focusText     = regexp.MustCompile(`^\S(.*\S)?$`)
	focusDate     = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$`)
	focusNumber   = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	focusCurrency = regexp.MustCompile(`^[A-Z]{3}$`)
	focusUnits    = regexp.MustCompile(`^([A-Z][A-Za-z]*-Hours|Charges)$`)
)

// focusMandatory are the columns whose feature level is Mandatory in the specification.
var focusMandatory = map[string]focusRule{
	"BilledCost": {form: focusNumber}, "BillingAccountId": {form: focusText}, "BillingAccountName": {nullable: true, form: focusText},
	"BillingCurrency": {form: focusCurrency}, "BillingPeriodEnd": {form: focusDate}, "BillingPeriodStart": {form: focusDate},
	"ChargeCategory": {form: regexp.MustCompile(`^(Usage|Purchase|Tax|Credit|Adjustment)$`)}, "ChargeClass": {nullable: true, form: regexp.MustCompile(`^Correction$`)},
	"ChargeDescription": {nullable: true, form: focusText}, "ChargePeriodEnd": {form: focusDate}, "ChargePeriodStart": {form: focusDate},
	"ContractedCost": {form: focusNumber}, "EffectiveCost": {form: focusNumber}, "InvoiceIssuerName": {form: focusText}, "ListCost": {form: focusNumber},
	"PricingQuantity": {nullable: true, form: focusNumber}, "PricingUnit": {nullable: true, form: focusUnits}, "ProviderName": {form: focusText},
	"PublisherName": {form: focusText}, "ServiceCategory": {form: regexp.MustCompile(`^(Compute|Networking|Storage)$`)}, "ServiceName": {form: focusText},
}

// focusOptional are the conditional and recommended columns that the dataset has.
var focusOptional = map[string]focusRule{
	"CapacityReservationId": {nullable: true, form: focusText}, "CapacityReservationStatus": {nullable: true, form: regexp.MustCompile(`^(Used|Unused)$`)},
	"ChargeFrequency":  {form: regexp.MustCompile(`^(One-Time|Recurring|Usage-Based)$`)},
	"ConsumedQuantity": {nullable: true, form: focusNumber}, "ConsumedUnit": {nullable: true, form: focusUnits},
	"ServiceSubcategory": {form: regexp.MustCompile(`^Other \((Compute|Networking|Storage)\)$`)}, "SubAccountId": {nullable: true, form: focusText}, "SubAccountName": {nullable: true, form: focusText},
}

// charges writes rows as a dataset and parses it into one map for each charge. It checks the rules
// for single columns.
func charges(t runtest.T, rows []AccountRow) []map[string]string {
	t.Helper()
	var out bytes.Buffer
	runtest.Check(t, WriteFocus(&out, rows, "5c1f"))
	records, err := csv.NewReader(&out).ReadAll()
	runtest.Check(t, err)
	names := records[0]
	own := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "x_") })
	if !slices.IsSorted(names[:own]) || slices.ContainsFunc(names[own:], func(n string) bool { return !strings.HasPrefix(n, "x_") }) {
		t.Fatalf("columns of FOCUS are not sorted, or columns of its own are among them: %v", names)
	}
	for name := range focusMandatory {
		if !slices.Contains(names, name) {
			t.Fatalf("the mandatory column %s is missing", name)
		}
	}
	var all []map[string]string
	for _, record := range records[1:] {
		charge := map[string]string{}
		for i, name := range names {
			charge[name] = record[i]
			rule, known := focusMandatory[name]
			if !known {
				rule, known = focusOptional[name]
			}
			switch {
			case !known && i < own:
				t.Fatalf("FOCUS 1.2 has no column %s", name)
			case !known, record[i] == "" && rule.nullable:
			case !rule.form.MatchString(record[i]):
				t.Fatalf("%s is %q", name, record[i])
			}
		}
		checkCharge(t, charge)
		all = append(all, charge)
	}
	return all
}

// checkCharge checks the rules about several columns of a charge.
func checkCharge(t runtest.T, c map[string]string) {
	t.Helper()
	null := func(name string) bool { return c[name] == "" }
	switch {
	case null("CapacityReservationId") != null("CapacityReservationStatus"):
		t.Fatalf("CapacityReservationStatus is null if and only if CapacityReservationId is: %v", c)
	case null("PricingQuantity") != null("PricingUnit"), null("ConsumedQuantity") != null("ConsumedUnit"), null("SubAccountId") != null("SubAccountName"):
		t.Fatalf("a quantity has no unit, or an account no name: %v", c)
	case c["ChargeCategory"] == "Usage" && (null("PricingQuantity") || null("ConsumedQuantity")):
		t.Fatalf("usage has no quantity: %v", c)
	case c["ChargePeriodStart"] < c["BillingPeriodStart"], c["ChargePeriodEnd"] > c["BillingPeriodEnd"], c["ChargePeriodStart"] >= c["ChargePeriodEnd"]:
		t.Fatalf("the charge is outside of its billing period: %v", c)
	case c["ContractedCost"] != c["BilledCost"], c["ListCost"] != c["BilledCost"], c["EffectiveCost"] != c["BilledCost"]:
		t.Fatalf("without unit prices all costs match BilledCost: %v", c)
	case !strings.Contains(c["ServiceSubcategory"], c["ServiceCategory"]):
		t.Fatalf("the subcategory belongs to another category: %v", c)
	}
}

func sumOf(n int64) money.Sum { return money.Over(n, 1) }

func focusRow(resource corev1.ResourceName, held, used, unobserved, paid int64) AccountRow {
	day := time.Date(2026, time.November, 20, 0, 0, 0, 0, time.UTC)
	return AccountRow{
		From: day, To: day.AddDate(0, 0, 1), Tenant: "blue", Requester: "rome", Provider: "paris", Currency: "EUR", Resource: resource,
		AccountSums: AccountSums{Held: sumOf(held), Used: sumOf(used), Unobserved: sumOf(unobserved), Money: sumOf(paid)},
	}
}

func TestFocusDividesAReservationIntoUsedAndUnused(t *testing.T) {
	free := focusRow("cpu", 3_600_000, 0, 0, 0)
	free.Currency = ""
	got := charges(t, []AccountRow{focusRow("cpu", 7_200_000, 3_600_000, 1_800_000, 7_200*int64(money.Unit)), focusRow("egress", 0, 0, 0, 3_600*int64(money.Unit)/2), free})
	want := [][]string{
		{"Used", "true", "1", "1", "Core-Hours"}, {"Unused", "true", "0.5", "0.5", "Core-Hours"}, {"Unused", "false", "0.5", "0.5", "Core-Hours"}, {"", "", "0.5", "1", "Charges"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d charges, want %d: %v", len(got), len(want), got)
	}
	for i, c := range got {
		if row := []string{c["CapacityReservationStatus"], c["x_Observed"], c["BilledCost"], c["PricingQuantity"], c["PricingUnit"]}; !slices.Equal(row, want[i]) {
			t.Errorf("charge %d is %q, want %q", i, row, want[i])
		}
	}
	if id := got[0]["CapacityReservationId"]; id != "urn:liqo-resource-broker:5c1f:paris:rome:blue" || id != got[1]["CapacityReservationId"] {
		t.Errorf("the capacity reservation is %s", id)
	}
}

func TestFocusDataset(t *testing.T) {
	var out bytes.Buffer
	rows := []AccountRow{focusRow("cpu", 7_200_000, 3_600_000, 1_800_000, 7_200*int64(money.Unit)), focusRow("storage", 3600<<30, 3600<<30, 0, 36*int64(money.Unit)), focusRow(transfer, 0, 0, 0, 1800*int64(money.Unit))}
	runtest.Check(t, WriteFocus(&out, rows, "5c1f"))
	compareGolden(t, "cost-focus.csv", out.String())
}

// A spreadsheet computes cells that begin with such a character, and requesters choose the names of tenants.
func TestFocusHasNoFormulas(t *testing.T) {
	for _, tenant := range []string{`=HYPERLINK("https://evil.example","invoice")`, "+1", "-1", "@SUM(A1)"} {
		row := focusRow("cpu", 1, 1, 0, 1)
		row.Tenant = tenant
		if got := charges(t, []AccountRow{row})[0]["SubAccountName"]; got != "'"+tenant {
			t.Errorf("tenant %s is written as %s", tenant, got)
		}
	}
}

// Used and unused parts add up exactly to what was reserved and paid.
func TestFocusAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		held := rapid.Int64Range(1, 1<<50).Draw(t, "held")
		used := rapid.Int64Range(0, held).Draw(t, "used")
		row := focusRow("cpu", held, used, rapid.Int64Range(0, held-used).Draw(t, "unobserved"), rapid.Int64Range(0, 1<<60).Draw(t, "paid"))
		if rapid.Bool().Draw(t, "a list price is set") {
			row.List = Comparison{Cost: sumOf(rapid.Int64Range(0, 1<<60).Draw(t, "list")), Paid: row.Money}
		}
		cost, hours, list := decimal.Zero, decimal.Zero, decimal.Zero
		for _, c := range charges(t, []AccountRow{row}) {
			paid, quantity := decimal.RequireFromString(c["BilledCost"]), decimal.RequireFromString(c["PricingQuantity"])
			if paid.IsNegative() || quantity.IsNegative() {
				t.Fatalf("a negative charge: %v", c)
			}
			cost, hours, list = cost.Add(paid), hours.Add(quantity), list.Add(decimal.RequireFromString(c["x_CostAtListPrice"]))
		}
		if want := row.List.replacePaid(row.Money); !list.Equal(want) {
			t.Fatalf("%s at the list price, want %s", list, want)
		}
		if !cost.Equal(row.Money.Money()) || !hours.Equal(HoursOf("cpu", row.Held)) {
			t.Fatalf("%s for %s hours, want %s for %s", cost, hours, row.Money.Money(), HoursOf("cpu", row.Held))
		}
	})
}
