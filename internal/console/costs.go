package console

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// CostQuery says which costs a page shows, as the user typed it. "" stands for the default.
type CostQuery struct{ By, From, To, Period string }

// CostSource reads the accounts of a broker with the rights of the console's user.
type CostSource interface {
	// Cost returns what was reserved, used and paid.
	Cost(ctx context.Context, q CostQuery) (*view.Cost, error)
	// Focus returns the ended periods as a FOCUS dataset.
	Focus(ctx context.Context, q CostQuery) ([]byte, error)
}

// focusPath is the address of the FOCUS dataset.
const focusPath = "/costs/focus.csv"

// costGroups and costPeriods are the choices of the form.
var (
	costGroups  = []view.CostBy{view.CostByRequester, view.CostByTenant, view.CostByProvider, view.CostByResource}
	costPeriods = []string{"hour", "day", "month"}
)

func costQueryOf(r *http.Request) CostQuery {
	q := r.URL.Query()
	return CostQuery{By: q.Get("by"), From: q.Get("from"), To: q.Get("to"), Period: q.Get("period")}
}

// addressOn returns the address of a path with the query, without empty fields.
func (q CostQuery) addressOn(path string) string {
	return addressOf(path, map[string]string{"by": q.By, "from": q.From, "to": q.To, "period": q.Period})
}

// command returns the kubectl command that shows the same figures.
func (q CostQuery) command() string {
	return withFlags("kubectl broker cost", flagValue{"by", q.By}, flagValue{"from", q.From}, flagValue{"to", q.To}, flagValue{"period", q.Period})
}

// costPage is the data of the page Costs.
type costPage struct {
	CostQuery
	Groups  []view.CostBy
	Periods []string
	// Problem says why there are no figures; "" if there are.
	Problem string
	Cost    *view.Cost
	Begin   string
	End     string
	Rows    []costRow
	// Total is the number of rows on all pages.
	Total                           int
	Next, Earlier, Later, FocusLink string
}

// costRow is a row of the table, with a bar for the used part of what was reserved.
type costRow struct {
	view.CostRow
	Bar template.HTML
}

func buildCosts(ctx context.Context, v *visit) (*content, error) {
	if v.site.costs == nil {
		return &content{
			Template: "notice", Title: "Costs", Command: "kubectl broker cost",
			Data: "The console in the cluster does not show costs. The accounts are in the broker's journal, which the broker would have to replay for this page, with its own rights. " +
				"The command below, and this page of kubectl broker console, read it on your computer with your rights.",
		}, nil
	}
	query := costQueryOf(v.request)
	data := &costPage{CostQuery: query, Groups: costGroups, Periods: costPeriods}
	page := &content{Template: "costs", Title: "Costs", Command: "kubectl broker cost", Data: data}
	cost, err := v.site.costs.Cost(ctx, query)
	if err != nil {
		data.Problem = err.Error()
		return page, nil
	}
	page.Command = query.command()
	data.fillIn(cost, v.request.URL)
	return page, nil
}

// fillIn fills the page with figures.
func (p *costPage) fillIn(cost *view.Cost, address *url.URL) {
	p.Cost, p.Begin, p.End = cost, costTime(cost.From.Time), costTime(cost.To.Time)
	var all []view.CostRow
	for i := range cost.Items {
		all = append(all, cost.Rows(&cost.Items[i])...)
	}
	from, end, next := rowsFrom(address, len(all))
	for i, row := range all[from:end] {
		row.First = row.First || i == 0
		p.Rows = append(p.Rows, costRow{row, drawUse(row.Percent)})
	}
	p.Total, p.Next = len(all), next
	month := cost.From.UTC()
	month = time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC)
	p.Earlier = p.linkToMonth(month.AddDate(0, -1, 0))
	if later := month.AddDate(0, 1, 0); cost.Until.IsZero() || !later.After(cost.Until.Time) {
		p.Later = p.linkToMonth(later)
	}
	p.FocusLink = p.addressOn(focusPath)
}

func (p *costPage) linkToMonth(month time.Time) string {
	q := p.CostQuery
	q.From, q.To = month.Format(time.DateOnly), month.AddDate(0, 1, 0).Format(time.DateOnly)
	return q.addressOn("/costs")
}

func costTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// drawUse draws the used part of what was reserved as SVG. It returns "" for an unknown part.
func drawUse(percent int64) template.HTML {
	if percent < 0 {
		return ""
	}
	words := fmt.Sprintf("%d %% used", percent)
	return template.HTML(fmt.Sprintf( //nolint:gosec // it contains numbers only
		`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="%s"><title>%s</title>`+
			`<rect class="free" width="100" height="10"/><rect class="reserved" width="%d" height="10"/></svg>`, words, words, min(percent, 100)))
}

// serveFocus sends the FOCUS dataset of the time that the page Costs shows.
func (s *site) serveFocus(w http.ResponseWriter, r *http.Request) {
	s.serveFile(w, r, "focus.csv", "text/csv; charset=utf-8", s.costs != nil, func(ctx context.Context) ([]byte, error) {
		return s.costs.Focus(ctx, costQueryOf(r))
	})
}
