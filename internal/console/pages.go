package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// rowsPerPage is how many rows a list shows at once.
const rowsPerPage = 100

// errNotFound means that an object does not exist or that the user may not list it. Users cannot tell which.
var errNotFound = errors.New("there is no such object, or you may not list it")

// content describes a page: the data, and the template that shows them.
type content struct {
	// Template is the name of the template that shows Data.
	Template string
	Title    string
	// Command is a command that shows the content of the page in a terminal.
	Command string
	Data    any
	// Done says what the user has just changed; "" for nothing.
	Done string
	// Past says which time of the past the page shows; "" for the present.
	Past string
	// Gaps are texts about what is not shown, for example because the user may not list it.
	Gaps []string
}

// visit is one request of a user for a page.
type visit struct {
	site     *site
	visitor  *visitor
	snapshot *view.Snapshot
	// revision is the revision of the objects in the snapshot.
	revision uint64
	request  *http.Request
}

// page is an entry of the console's list of pages.
type page struct {
	// pattern is the path, as net/http matches it.
	pattern string
	// name is the entry in the navigation, or "" if the page is reached only by links.
	name string
	// broker and member say in which kinds of clusters the page exists.
	broker, member bool
	// still is true if the content does not depend on objects. Such a page has no stream.
	still bool
	// past is true if the page can show the past.
	past bool
	// acts is true if the page exists only in consoles that make changes. It answers POST, too.
	acts  bool
	build func(ctx context.Context, v *visit) (*content, error)
}

// existsIn reports whether a console has the page.
func (p *page) existsIn(s *site) bool {
	return (s.broker && p.broker || s.member && p.member) && (s.actions || !p.acts)
}

// pages lists all pages, in the order of the navigation.
var pages = []page{
	{pattern: "/{$}", name: "Overview", broker: true, member: true, past: true, build: buildOverview},
	{pattern: "/clusters", name: "Clusters", broker: true, past: true, build: buildClusters},
	{pattern: "/reservations", name: "Reservations", broker: true, past: true, build: buildReservations},
	{pattern: "/queue", name: "Queue", broker: true, past: true, build: buildQueue},
	{pattern: "/requesters", name: "Requesters", broker: true, past: true, build: buildRequesters},
	{pattern: "/costs", name: "Costs", broker: true, still: true, build: buildCosts},
	{pattern: "/plan", name: "Plan", broker: true, still: true, build: buildPlan},
	{pattern: "/audit", name: "Audit", broker: true, still: true, build: buildAudit},
	{pattern: "/requests", name: "My requests", member: true, build: buildRequests},
	{pattern: "/quote", name: "Quote", member: true, still: true, build: buildQuote},
	{pattern: "/lent", name: "Lent", member: true, build: buildLent},
	{pattern: "/configuration", name: "Configuration", broker: true, build: buildConfiguration},
	{pattern: "/reasons", name: "Reasons", broker: true, member: true, still: true, build: buildReasons},
	{pattern: "/reasons/{word}", broker: true, member: true, still: true, build: buildReason},
	{pattern: "/actions/{action}", broker: true, member: true, still: true, acts: true, build: buildAction},
	{pattern: "/objects/{kind}/{name}", broker: true, member: true, past: true, build: buildObject},
	{pattern: "/objects/{kind}/{namespace}/{name}", broker: true, member: true, past: true, build: buildObject},
}

func buildOverview(_ context.Context, v *visit) (*content, error) {
	s := view.NewStatus(v.snapshot)
	data := struct {
		*view.Status
		Problems []view.Problem
		Shares   []shareRow
		Counts   []view.CountRow
	}{Status: s, Problems: view.DescribeProblems(s, v.snapshot), Shares: shareRows(s.Market), Counts: s.CountRows()}
	return &content{Template: "overview", Title: "Overview", Command: "kubectl broker status", Data: data, Gaps: view.DescribeGaps(s.Gaps)}, nil
}

func buildClusters(_ context.Context, v *visit) (*content, error) {
	top, total, next := view.TopClusters(v.snapshot, view.Selection{After: v.request.URL.Query().Get("after"), Most: rowsPerPage})
	type row struct {
		view.Use
		Shares []shareRow
	}
	rows := make([]row, len(top.Items))
	for i, item := range top.Items {
		rows[i].Use = item
		for _, l := range item.Shares {
			rows[i].Shares = append(rows[i].Shares, shareRows([]view.Share{{Resource: l.Resource, Allocatable: l.Total, Own: l.Own, Reserved: l.Reserved, Free: l.Free}})...)
		}
	}
	data := struct {
		Rows  []row
		Total int
		Next  string
	}{rows, total, nextPage(v.request.URL, next)}
	return &content{Template: "clusters", Title: "Clusters", Command: "kubectl broker top", Data: data, Gaps: view.DescribeGaps(top.Gaps)}, nil
}

// nextPage returns the address of the page that begins after a row. It keeps the filters. It returns "" if after is "".
func nextPage(at *url.URL, after string) string {
	if after == "" {
		return ""
	}
	return withParameter(at, "after", after)
}

// addressOf returns the address of a page with those parameters that are not empty.
func addressOf(path string, parameters map[string]string) string {
	query := url.Values{}
	for name, value := range parameters {
		if value != "" {
			query.Set(name, value)
		}
	}
	return withQuery(path, query)
}

// withParameter returns an address with another value of a parameter, or without it if the value is "".
func withParameter(at *url.URL, name, value string) string {
	query := at.Query()
	query.Del(name)
	if value != "" {
		query.Set(name, value)
	}
	return withQuery(at.Path, query)
}

func withQuery(path string, query url.Values) string {
	return strings.TrimSuffix(path+"?"+query.Encode(), "?")
}

// rowsFrom returns which of n rows are on the page at an address, and the address of the next page, "" if there is none.
// Pages are counted by row numbers, because the rows have a fixed order.
func rowsFrom(at *url.URL, n int) (from, end int, next string) {
	from, _ = strconv.Atoi(at.Query().Get("after"))
	from = min(max(from, 0), n)
	end = min(from+rowsPerPage, n)
	if end < n {
		next = nextPage(at, strconv.Itoa(end))
	}
	return from, end, next
}

// tablePage is the data of a page with a table and filters.
type tablePage struct {
	Table   view.Table
	Path    string
	Filters []actionField
	Total   int
	Next    string
	Empty   string
	// Notice is a warning about all rows; "" for none.
	Notice string
	// At is the time of the past that the table shows; "" for the present.
	At string
	// Actions are links above the table. RowActions are links in each row, nil if there are none.
	Actions    []actionLink
	RowActions [][]actionLink
}

func selectionOf(r *http.Request) view.Selection {
	q := r.URL.Query()
	return view.Selection{
		Namespace: q.Get("namespace"), Phase: q.Get("phase"), Requester: q.Get("requester"), Provider: q.Get("provider"), Text: q.Get("text"),
		After: q.Get("after"), Most: rowsPerPage,
	}
}

func filtersOf(r *http.Request, names ...string) (fields []actionField) {
	for _, name := range names {
		fields = append(fields, actionField{Name: name, Label: strings.ToUpper(name[:1]) + name[1:], Value: r.URL.Query().Get(name)})
	}
	return fields
}

func newListPage(v *visit, l *view.Listing, empty string, filters ...string) tablePage {
	return tablePage{
		Table: l.Table(), Path: v.request.URL.Path, Filters: filtersOf(v.request, filters...), Total: l.Total, Next: nextPage(v.request.URL, l.Next), Empty: empty, At: v.timeAsked(),
	}
}

func buildReservations(_ context.Context, v *visit) (*content, error) {
	l := view.ListReservations(v.snapshot, selectionOf(v.request))
	data := newListPage(v, l, "No reservation matches.", "text", "namespace", "phase", "requester", "provider")
	return &content{Template: "table", Title: "Reservations", Command: "kubectl get reservations -A", Data: data, Gaps: view.DescribeGaps(l.Gaps)}, nil
}

func buildRequests(_ context.Context, v *visit) (*content, error) {
	l := view.ListRequests(v.snapshot, selectionOf(v.request))
	data := newListPage(v, l, "No request matches. Create a ResourceRequest to borrow capacity: kubectl broker reserve --help.", "text", "namespace", "phase", "provider")
	data.Actions = v.linkToAction("reserve", nil)
	return &content{Template: "table", Title: "My requests", Command: "kubectl get resourcerequests -A", Data: data, Gaps: view.DescribeGaps(l.Gaps)}, nil
}

func buildLent(ctx context.Context, v *visit) (*content, error) {
	used, gaps, err := v.usedAmounts(ctx)
	if err != nil {
		return nil, err
	}
	l := view.ListLent(v.snapshot, selectionOf(v.request), used)
	status := view.NewStatus(v.snapshot)
	data := struct {
		tablePage
		Shares   []shareRow
		Earnings []string
	}{newListPage(v, l, "This cluster lends nothing at the moment.", "text", "phase", "requester"), shareRows(status.Market), view.SumEarnings(v.snapshot)}
	if v.site.actions {
		for _, row := range data.Table.Rows {
			data.RowActions = append(data.RowActions, v.actionsFor(row.Ref))
		}
	}
	return &content{Template: "lent", Title: "Lent", Command: "kubectl broker top", Data: data, Gaps: view.DescribeGaps(append(gaps, l.Gaps...))}, nil
}

// usedAmounts returns what the pods of each placement in this cluster request, which reveals no more than a list of the
// pods would. It returns nil if that is unknown, or hidden from the visitor.
func (v *visit) usedAmounts(ctx context.Context) (map[string]quantity.Amounts, []view.Gap, error) {
	if v.site.used == nil {
		return nil, nil, nil
	}
	allowed, err := v.visitor.reviews.mayList(ctx, v.visitor.info, corev1.GroupName, "pods", "")
	if err != nil {
		return nil, nil, err
	}
	if !allowed {
		return nil, []view.Gap{{Kind: view.Hidden, Resource: "pods"}}, nil
	}
	return v.site.used(), nil, nil
}

func buildQueue(_ context.Context, v *visit) (*content, error) {
	from, _ := strconv.Atoi(v.request.URL.Query().Get("after")) // a row number: the queue has no keys that stay the same
	from = min(max(from, 0), len(v.snapshot.Broker.Reservations))
	q, total := view.QueuePart(v.snapshot, from, rowsPerPage)
	next := ""
	if from < total-rowsPerPage {
		next = nextPage(v.request.URL, strconv.Itoa(from+rowsPerPage))
	}
	data := tablePage{Table: q.Table(v.snapshot), Path: v.request.URL.Path, Total: total, Next: next, Empty: "Nothing waits."}
	if total > 0 {
		data.Empty = "No more requests wait than those on the pages before."
	}
	if q.Paused {
		data.Notice = "The queue is paused: nothing is granted to waiting requests."
	}
	return &content{Template: "table", Title: "Queue", Command: "kubectl broker queue", Data: data, Gaps: view.DescribeGaps(q.Gaps)}, nil
}

func buildRequesters(_ context.Context, v *visit) (*content, error) {
	top := view.NewTopRequesters(v.snapshot)
	from, end, next := rowsFrom(v.request.URL, len(top.Items))
	data := tablePage{Path: v.request.URL.Path, Total: len(top.Items), Next: next, Empty: "Nothing is reserved."}
	top.Items = top.Items[from:end]
	data.Table = top.Table()
	for i := range data.Table.Rows {
		data.Table.Rows[i].Ref = view.Ref{} // the requester may have no advertisement to show
	}
	return &content{Template: "table", Title: "Requesters", Command: "kubectl broker top requesters", Data: data, Gaps: view.DescribeGaps(top.Gaps)}, nil
}

func buildConfiguration(ctx context.Context, v *visit) (*content, error) {
	config := v.snapshot.Broker.Config
	if config == nil {
		return &content{
			Template: "notice", Title: "Configuration", Command: "kubectl get brokerconfig", Data: "No BrokerConfig is shown: there is none, and all defaults apply, or you may not list it.",
			Gaps: view.DescribeGaps(v.snapshot.Gaps),
		}, nil
	}
	return v.tellStory(ctx, view.Ref{Kind: "BrokerConfig", Name: config.Name})
}

func buildObject(ctx context.Context, v *visit) (*content, error) {
	r := v.request
	kind := view.KindNamed(r.PathValue("kind"))
	return v.tellStory(ctx, view.Ref{Kind: kind, Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
}

// tellStory returns the page about one object: its story, the events about it, and its manifest.
func (v *visit) tellStory(ctx context.Context, ref view.Ref) (*content, error) {
	if _, known := shownKinds[ref.Kind]; !known || !v.snapshot.Has(ref) {
		return nil, errNotFound
	}
	s := v.snapshot
	all := []*view.Snapshot{s}
	related := view.Related(all, ref)
	for _, r := range related[0] {
		if s.Record != 0 {
			break // events are of the present
		}
		events, gap := v.site.users.events(ctx, v.visitor.token, r)
		s.Events = append(s.Events, events...)
		if gap != nil && !slices.Contains(s.Gaps, *gap) {
			s.Gaps = append(s.Gaps, *gap)
		}
	}
	story := view.NewStory(all, ref, related)
	data := struct {
		*view.Story
		Snapshot      *view.Snapshot
		Manifest      string
		ManifestError string
		// Plan is the address of the plan to drain the cluster; "" for other objects.
		Plan    string
		Actions []actionLink
	}{Story: story, Snapshot: s, Plan: v.planToDrain(ref), Actions: v.actionsFor(ref)}
	var err error
	if s.Record != 0 {
		data.ManifestError = "the journal does not keep manifests"
	} else if data.Manifest, err = v.site.users.manifest(ctx, v.visitor.token, ref); err != nil {
		data.ManifestError = err.Error()
	}
	command := "kubectl broker why " + ref.Short()
	if ref.Namespace != "" {
		command += " -n " + ref.Namespace
	}
	return &content{Template: "story", Title: ref.Kind + " " + ref.Name, Command: command, Data: data, Gaps: view.DescribeGaps(story.Gaps)}, nil
}

func buildReasons(_ context.Context, v *visit) (*content, error) {
	text := strings.ToLower(v.request.URL.Query().Get("text"))
	var found []view.Term
	for _, t := range view.Terms() {
		if strings.Contains(strings.ToLower(t.Word+" "+string(t.Subject)+" "+t.Means), text) {
			found = append(found, t)
		}
	}
	return newReasonsPage("Conditions and reasons", "kubectl broker reason", v.request.URL.Query().Get("text"), found), nil
}

// buildReason returns the page about a word, which may be one of another release.
func buildReason(_ context.Context, v *visit) (*content, error) {
	word, terms := v.request.PathValue("word"), view.Explain(v.request.PathValue("word"))
	if len(terms) > 0 {
		word = terms[0].Word
	}
	return newReasonsPage(word, "kubectl broker reason "+quoteWord(word), "", terms), nil
}

func newReasonsPage(title, command, text string, terms []view.Term) *content {
	data := struct {
		Terms []view.Term
		Text  string
	}{terms, text}
	return &content{Template: "reasons", Title: title, Command: command, Data: data}
}
