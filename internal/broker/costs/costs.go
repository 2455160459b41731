// Package costs reads what was reserved, used and paid from the accounts of a broker, for the command cost and for the
// web console. It needs no running broker.
package costs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// Groups are the values by which the accounts can be grouped. The first one is the default.
var Groups = []view.CostBy{view.CostByRequester, view.CostByTenant, view.CostByProvider, view.CostByResource}

// Span is the time that figures cover. Without From, it begins with the month of the last figures. Without To, it ends
// with this month.
type Span struct {
	From, To time.Time
	// Period divides the figures into hours, days or months. If it is "", they are sums over the whole time.
	Period accounts.Span
}

// EmptySpanError means that a span does not end after it begins.
type EmptySpanError struct{ Span Span }

func (e *EmptySpanError) Error() string {
	return fmt.Sprintf("the time from %s to %s is empty: the first must be before the second", e.Span.From.Format(time.RFC3339), e.Span.To.Format(time.RFC3339))
}

// hourLayouts are the accepted formats of a time.
var hourLayouts = []string{time.DateOnly, "2006-01-02T15:04Z", time.RFC3339}

// ParseHour parses a full hour in UTC, or a day. It returns the zero time for "".
func ParseHour(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range hourLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			if at = at.UTC(); !accounts.Hour.StartOf(at).Equal(at) {
				return at, fmt.Errorf("%s is no full hour in UTC", text)
			}
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: write a day or a full hour, as 2026-11-20 or 2026-11-20T14:00Z", text)
}

// ParsePeriod parses a period; "" for none.
func ParsePeriod(text string) (accounts.Span, error) {
	if period := accounts.Span(text); text == "" || slices.Contains(accounts.Spans, period) {
		return period, nil
	}
	return "", fmt.Errorf("%q: choose hour, day or month", text)
}

// ParseGroup returns the allowed group with the name in text, or the first allowed one if text is "". For any other text
// it returns an error. reader is the subject of the sentence in this error, for example "a broker".
func ParseGroup(text string, allowed []view.CostBy, reader string) (view.CostBy, error) {
	if text == "" {
		return allowed[0], nil
	}
	if by := view.CostBy(strings.ToLower(text)); slices.Contains(allowed, by) {
		return by, nil
	}
	names := make([]string, len(allowed))
	for i, by := range allowed {
		names[i] = string(by)
	}
	return "", fmt.Errorf("%q: %s knows %s", text, reader, strings.Join(names, ", "))
}

// Check returns an error unless the span begins and ends with full hours, and with its periods.
func (s *Span) Check() error {
	for _, at := range []time.Time{s.From, s.To} {
		if !at.IsZero() && !accounts.Hour.StartOf(at).Equal(at) {
			return fmt.Errorf("%s is no full hour in UTC", at.Format(time.RFC3339))
		}
		if !s.IsBegin(at) {
			return fmt.Errorf("%s is not the begin of a %s: rows for each %s need such times", at.Format(time.RFC3339), s.Period, s.Period)
		}
	}
	if !s.To.IsZero() && !s.From.Before(s.To) {
		return &EmptySpanError{*s}
	}
	return nil
}

// IsBegin reports whether one of the span's periods begins at the given time. It returns true for the zero time, and
// for a span without a Period.
func (s *Span) IsBegin(at time.Time) bool {
	return s.Period == "" || at.IsZero() || s.Period.StartOf(at).Equal(at)
}

// partsOf divides the span into hours, days and months. If From or To is zero, it sets it first. until is the time of
// the last figures.
func (s *Span) partsOf(until time.Time) ([]accounts.Part, error) {
	longest := cmp.Or(s.Period, accounts.Month)
	if s.From.IsZero() {
		s.From = accounts.Month.StartOf(until)
	}
	if s.To.IsZero() {
		s.To = accounts.Month.After(accounts.Month.StartOf(until))
	}
	if !s.From.Before(s.To) {
		return nil, &EmptySpanError{*s}
	}
	return accounts.Cover(s.From, s.To, until, longest), nil
}

// Read adds up the accounts in a span.
func Read(ctx context.Context, from *replay.Accounts, span Span, by view.CostBy) (*view.Cost, error) {
	rows, deleted, err := span.readRows(ctx, from)
	if err != nil {
		return nil, err
	}
	covered := view.CostSpan{From: span.From, To: span.To, Until: from.Until()}
	if span.Period != "" {
		covered.Split = span.Period.StartOf
	}
	return view.NewCost(rows, by, covered, deleted), nil
}

// readRows returns the rows of the span's parts, see partsOf, and the names of those parts whose rows were deleted.
func (s *Span) readRows(ctx context.Context, from *replay.Accounts) (rows []view.AccountRow, deleted []string, err error) {
	parts, err := s.partsOf(from.Until())
	if err != nil {
		return nil, nil, err
	}
	periods, lost, err := from.Read(ctx, parts)
	if err != nil {
		return nil, nil, err
	}
	for i := range periods {
		period := &periods[i]
		for j := range period.Rows {
			r := &period.Rows[j]
			rows = append(rows, view.AccountRow{
				From: period.Start, To: period.End(), Tenant: r.Tenant, Requester: r.Requester, Provider: r.Provider, Currency: r.Currency, Resource: r.Resource,
				AccountSums: view.AccountSums{Held: r.Held, Used: r.Used, Unobserved: r.Unobserved, Money: r.Money, Dearest: view.Comparison(r.Dearest), List: view.Comparison(r.List)},
			})
		}
	}
	for _, part := range lost {
		deleted = append(deleted, part.Name())
	}
	return rows, deleted, nil
}

// Focus is a dataset of ended periods in the format FOCUS (FinOps Open Cost and Usage Specification). The rows of ended
// periods never change, so importing them again gives the same figures.
type Focus struct {
	From, To time.Time
	// NotPriced is the number of rows that Write leaves out because their resources have no price.
	NotPriced int
	rows      []view.AccountRow
	journal   string
}

// ReadFocus reads the ended periods in a span. It returns an error if the rows of one of them were deleted.
func ReadFocus(ctx context.Context, from *replay.Accounts, span Span) (*Focus, error) {
	ended := accounts.Hour.StartOf(from.Until())
	if span.Period != "" {
		ended = span.Period.StartOf(from.Until())
	}
	if span.To.IsZero() || span.To.After(ended) {
		span.To = ended
	}
	if span.From.IsZero() {
		span.From = accounts.Month.StartOf(ended)
	}
	f := &Focus{From: span.From, To: span.To, journal: from.Journal}
	if !span.From.Before(span.To) {
		return f, nil
	}
	rows, deleted, err := span.readRows(ctx, from)
	if err != nil {
		return nil, err
	}
	if len(deleted) > 0 {
		return nil, fmt.Errorf("the broker no longer keeps %s: export it as longer periods, with --period month", strings.Join(deleted, ", "))
	}
	f.rows = rows
	for i := range rows {
		if rows[i].Currency == "" {
			f.NotPriced++
		}
	}
	return f, nil
}

// Write writes the dataset as CSV.
func (f *Focus) Write(to io.Writer) error { return view.WriteFocus(to, f.rows, f.journal) }
