package view

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// Preview is the view of a quote without a hold: which cluster would serve a request, and at what price.
type Preview struct {
	metav1.TypeMeta `json:",inline"`
	// Provider is the ID of the cluster that would serve the request; "" if none can.
	Provider string `json:"provider,omitempty"`
	// Waits is true if no cluster can serve the request now, and the request would wait in the queue.
	Waits bool `json:"waits,omitempty"`
	// Price is the provider's price.
	Price QuotedPrice `json:"price,omitzero"`
	// Candidates are other clusters: first those that could also serve the request, then some of the rejected ones.
	Candidates []QuotedCandidate `json:"candidates,omitempty"`
	// Others is the number of rejected clusters that Candidates does not contain, by reason.
	Others map[string]int32 `json:"others,omitempty"`
	// Advice is what could help if no cluster can serve the request. Each text begins with the reason that it is about.
	Advice []string `json:"advice,omitempty"`
	// Problem says why there is no quote; "" if there is one.
	Problem string `json:"problem,omitempty"`
}

// QuotedPrice is a price in a quote. It is the zero value for a cluster without a price.
type QuotedPrice struct {
	// PerHour and Total are decimals in Currency. Total is the price for the duration For.
	PerHour  string `json:"perHour,omitempty"`
	Total    string `json:"total,omitempty"`
	Currency string `json:"currency,omitempty"`
	// For is a duration such as "8h"; "24h" if the request has none.
	For string `json:"for,omitempty"`
	// NotPriced are the requested resources for which the cluster names no price. PerHour and Total leave them out.
	NotPriced []string `json:"notPriced,omitempty"`
}

// QuotedCandidate is a cluster that was not chosen as the provider in a quote.
type QuotedCandidate struct {
	ClusterID string `json:"clusterID"`
	// Fits is true if the cluster could serve the request.
	Fits bool `json:"fits,omitempty"`
	// Reason and Message say why a cluster cannot serve the request.
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Price   QuotedPrice `json:"price,omitzero"`
}

const (
	// quotePrefix is the beginning of every warning that is part of a quote.
	quotePrefix = "quote: "
	// maxWarning is the length in characters to which the API server may cut a warning.
	maxWarning = 256
	// maxQuotedCandidates is how many candidates get a warning of their own. It keeps the sum of all warnings below
	// 4096 characters, above which the API server cuts them.
	maxQuotedCandidates = 8
	// maxUnpriced is the length up to which a warning names the resources without a price; more are only counted.
	maxUnpriced = 40
	// maxAdvice is the maximum number of texts in Advice.
	maxAdvice = 3
)

// FormatHours formats a number of hours as a duration without zero parts, for example 8h or 1h30m.
func FormatHours(hours float64) string {
	text := time.Duration(hours * float64(time.Hour)).Round(time.Second).String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

// Summarize removes the requester from the candidates, and keeps at most maxQuotedCandidates of them. It sets Others to
// the rejected clusters that are not among these, and, if no cluster can serve the request, Advice. rejected is the
// number of all rejected clusters by reason.
func (q *Preview) Summarize(rejected map[string]int32) {
	q.Others = maps.Clone(rejected)
	if q.Provider == "" {
		for _, reason := range sortByCount(rejected) {
			if advice := PlainText(reasonOf(OfCandidate, reason).Do); advice != "" && len(q.Advice) < maxAdvice {
				q.Advice = append(q.Advice, reason+": "+advice)
			}
		}
	}
	// The requester is never its own provider, so it gets no warning.
	q.Candidates = slices.DeleteFunc(slices.Clone(q.Candidates), func(c QuotedCandidate) bool { return c.Reason == "Self" })
	delete(q.Others, "Self")
	q.Candidates = q.Candidates[:min(len(q.Candidates), maxQuotedCandidates)]
	for _, c := range q.Candidates {
		if c.Fits {
			continue
		}
		if q.Others[c.Reason]--; q.Others[c.Reason] <= 0 {
			delete(q.Others, c.Reason)
		}
	}
}

// Warnings returns the quote as warnings of at most 256 characters. The webhook returns them to the author of the
// request.
func (q *Preview) Warnings() []string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, message.Clip(quotePrefix+Clean(fmt.Sprintf(format, args...)), maxWarning))
	}
	if q.Problem != "" {
		add("none: %s", q.Problem)
		return lines
	}
	answer, _ := q.Judge()
	add("%s", answer)
	for _, c := range q.Candidates {
		if c.Fits {
			add("%s could serve it too%s", c.ClusterID, c.Price.describe())
			continue
		}
		add("%s cannot serve it: %s%s", c.ClusterID, c.Reason, withPrefix(": ", c.Message))
	}
	if len(q.Others) > 0 {
		var counts []string
		for _, reason := range slices.Sorted(maps.Keys(q.Others)) {
			counts = append(counts, fmt.Sprintf("%d %s", q.Others[reason], reason))
		}
		add("others cannot serve it: %s", strings.Join(counts, ", "))
	}
	for _, advice := range q.Advice {
		add("what helps against %s", advice)
	}
	return lines
}

// Judge says in words who would serve the request, and whether that is in order.
func (q *Preview) Judge() (string, Level) {
	switch {
	case q.Problem != "":
		return "no quote: " + q.Problem, Failure
	case q.Provider != "":
		return q.Provider + " would serve it" + q.Price.describe(), Normal
	case q.Waits:
		return "no cluster can serve it now, so it would wait in the queue", Warning
	}
	return "no cluster can serve it now", Warning
}

func withPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (p QuotedPrice) describe() string {
	if p.Currency == "" {
		return ", without a price"
	}
	names := p.NotPriced
	if len(strings.Join(names, andBetween)) > maxUnpriced {
		names = []string{countNoun(len(names), "resource", "resources")}
	}
	return WithNotPriced(fmt.Sprintf(" for %s %s per hour, %s %s for %s", p.PerHour, p.Currency, p.Total, p.Currency, p.For), names)
}

func (p QuotedPrice) cells() (perHour, total string) {
	if p.Currency == "" {
		return "-", "-"
	}
	return WithNotPriced(p.PerHour+" "+p.Currency, p.NotPriced), p.Total + " " + p.Currency
}

// priceForm is the format of a price in a warning.
const priceForm = `(?:, without a price| for (\S+) (\S+) per hour, (\S+) \S+ for ([^ ,]+)(?:, (.+) ` + NotPriced + `)?)$`

// warningForms are the formats of the warnings that Warnings returns, without quotePrefix, and what they say of the
// quote.
var warningForms = []struct {
	form *regexp.Regexp
	take func(q *Preview, m []string)
}{
	{regexp.MustCompile(`^no cluster can serve it now(, so it would wait in the queue)?$`), func(q *Preview, m []string) { q.Waits = m[1] != "" }},
	{regexp.MustCompile(`^(\S+) would serve it` + priceForm), func(q *Preview, m []string) { q.Provider, q.Price = m[1], priceOf(m[2:]) }},
	{regexp.MustCompile(`^(\S+) could serve it too` + priceForm), func(q *Preview, m []string) {
		q.Candidates = append(q.Candidates, QuotedCandidate{ClusterID: m[1], Fits: true, Price: priceOf(m[2:])})
	}},
	{regexp.MustCompile(`^others cannot serve it: (.*)$`), func(q *Preview, m []string) { q.Others = parseCounts(m[1]) }},
	{regexp.MustCompile(`^(\S+) cannot serve it: (\w+)(?:: (.*))?$`), func(q *Preview, m []string) {
		q.Candidates = append(q.Candidates, QuotedCandidate{ClusterID: m[1], Reason: m[2], Message: m[3]})
	}},
	{regexp.MustCompile(`^what helps against (.*)$`), func(q *Preview, m []string) { q.Advice = append(q.Advice, m[1]) }},
	{regexp.MustCompile(`^none: (.*)$`), func(q *Preview, m []string) { q.Problem = m[1] }},
}

func priceOf(parts []string) QuotedPrice {
	p := QuotedPrice{PerHour: parts[0], Currency: parts[1], Total: parts[2], For: parts[3]}
	if parts[4] != "" {
		p.NotPriced = strings.Split(parts[4], andBetween)
	}
	return p
}

// ParseWarnings returns the quote in the warnings of a dry run, nil if there is none that this version can read. others
// are the other warnings.
func ParseWarnings(warnings []string) (q *Preview, others []string) {
	for _, warning := range warnings {
		line, isQuote := strings.CutPrefix(warning, quotePrefix)
		if q == nil && isQuote {
			q = &Preview{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Preview"}}
			if !q.parseLine(line) { // the first line says who would serve the request
				return nil, warnings
			}
			continue
		}
		if !isQuote || !q.parseLine(line) {
			others = append(others, warning)
		}
	}
	return q, others
}

// parseLine parses a warning without its prefix. It reports whether the warning has a known form.
func (q *Preview) parseLine(line string) bool {
	for _, f := range warningForms {
		if m := f.form.FindStringSubmatch(line); m != nil {
			f.take(q, m)
			return true
		}
	}
	return false
}

func parseCounts(text string) map[string]int32 {
	counts := map[string]int32{}
	for part := range strings.SplitSeq(text, ", ") {
		number, reason, _ := strings.Cut(part, " ")
		if n, err := strconv.ParseInt(number, 10, 32); err == nil {
			counts[reason] = int32(n)
		}
	}
	return counts
}

// QuoteRow describes a cluster in a quote, or all other clusters with the same reason, for display.
type QuoteRow struct {
	// Cells are the cluster, its price per hour, its total price, and the duration of that.
	Cells []string
	// Reason is why the cluster cannot serve the request; "" if it can. Answer explains it.
	Reason, Answer string
}

// Rows returns one row for each cluster, the provider first, and then one for the other rejected clusters of each reason.
func (q *Preview) Rows() (rows []QuoteRow) {
	addRow := func(cluster string, p QuotedPrice, reason, answer string) {
		perHour, total := p.cells()
		rows = append(rows, QuoteRow{[]string{cluster, perHour, total, cmp.Or(p.For, "-")}, reason, answer})
	}
	if q.Provider != "" {
		addRow(q.Provider, q.Price, "", "serves it")
	}
	for _, c := range q.Candidates {
		if c.Fits {
			addRow(c.ClusterID, c.Price, "", "could serve it too")
			continue
		}
		addRow(c.ClusterID, QuotedPrice{}, c.Reason, c.Message)
	}
	for _, reason := range slices.Sorted(maps.Keys(q.Others)) {
		addRow(fmt.Sprintf("%d others", q.Others[reason]), QuotedPrice{}, reason, "")
	}
	return rows
}

// Table returns the Rows as a table.
func (q *Preview) Table() Table {
	t := Table{Columns: []Column{{Name: "Cluster"}, {Name: "Per hour"}, {Name: "Total"}, {Name: "For"}, {Name: "Answer"}}}
	for _, r := range q.Rows() {
		t.Rows = append(t.Rows, Row{Cells: append(r.Cells, strings.Trim(r.Reason+": "+r.Answer, ": "))})
	}
	return t
}

// HeldQuote is the view of a Quote: what is held, where, at what price and until when.
type HeldQuote struct {
	metav1.TypeMeta `json:",inline"`
	Ref             Ref               `json:"ref"`
	Phase           string            `json:"phase"`
	Provider        string            `json:"provider,omitempty"`
	Price           QuotedPrice       `json:"price,omitzero"`
	ExpiresAt       *metav1.Time      `json:"expiresAt,omitempty"`
	Message         string            `json:"message,omitempty"`
	Candidates      []QuotedCandidate `json:"candidates,omitempty"`
}

// NewHeldQuote returns the view of a Quote.
func NewHeldQuote(q *agentv1alpha1.Quote) *HeldQuote {
	out := &HeldQuote{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "HeldQuote"}, Ref: Ref{Kind: "Quote", Namespace: q.Namespace, Name: q.Name},
		Phase: string(q.Status.Phase), Provider: q.Status.TargetClusterID, ExpiresAt: q.Status.ExpiresAt, Message: q.Status.Message,
	}
	length := FormatHours(24)
	if q.Spec.Duration != nil {
		length = FormatHours(q.Spec.Duration.Hours())
	}
	if c := q.Status.Cost; c != nil {
		out.Price = QuotedPrice{PerHour: c.PerHour, Total: c.ToEnd, Currency: c.Currency, For: length, NotPriced: c.NotPriced}
	}
	for _, c := range q.Status.Candidates {
		if c.ClusterID != out.Provider {
			out.Candidates = append(out.Candidates, QuotedCandidate{ClusterID: c.ClusterID, Fits: c.Score != "", Reason: c.Reason, Message: c.Message})
		}
	}
	return out
}

// Table returns the Quote as a table with one row.
func (q *HeldQuote) Table() Table {
	perHour, total := q.Price.cells()
	expires := "-"
	if q.ExpiresAt != nil {
		expires = q.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return Table{
		Columns: []Column{{Name: "Name"}, {Name: "Phase"}, {Name: "Cluster"}, {Name: "Per hour"}, {Name: "Total"}, {Name: "Expires"}},
		Rows:    []Row{{Ref: q.Ref, Cells: []string{q.Ref.Name, q.Phase, cmp.Or(q.Provider, "-"), perHour, total, expires}}},
	}
}
