package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// quoteQuery is the form of the page Quote, as the user typed it. Its fields are flags of kubectl broker quote.
type quoteQuery struct {
	Namespace, CPU, Memory, Resource, For, Priority, Queue string
}

func quoteQueryOf(values url.Values) (q quoteQuery, filled bool) {
	value := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	q = quoteQuery{
		Namespace: cmp.Or(value("namespace"), metav1.NamespaceDefault), CPU: value("cpu"), Memory: value("memory"), Resource: strings.ReplaceAll(value("resource"), " ", ""),
		For: value("for"), Priority: value("priority"), Queue: value("queue"),
	}
	return q, q.CPU+q.Memory+q.Resource != ""
}

// fields returns the query as fields of a form.
func (q quoteQuery) fields() []actionField {
	return []actionField{
		{Name: "namespace", Label: "Namespace", Value: q.Namespace, Required: true},
		{Name: "cpu", Label: "CPU, in cores", Value: q.CPU, Example: "2"}, {Name: "memory", Label: "Memory", Value: q.Memory, Example: "4Gi"},
		{Name: "resource", Label: "Other resources", Value: q.Resource, Example: "nvidia.com/gpu=1"}, {Name: "for", Label: "Duration", Value: q.For, Example: "until it is released"},
		{Name: "priority", Label: "Priority", Value: q.Priority, Example: "0"}, {Name: "queue", Label: "May wait in the queue", Value: q.Queue, Checkbox: true},
	}
}

// arguments returns the query as arguments of kubectl broker quote and reserve.
func (q quoteQuery) arguments() string {
	text := withFlags("", flagValue{"cpu", q.CPU}, flagValue{"memory", q.Memory}, flagValue{"resource", q.Resource}, flagValue{"for", q.For}, flagValue{"priority", q.Priority})
	if q.Queue != "" {
		text += " --queue"
	}
	return text + " -n " + quoteWord(q.Namespace)
}

// buildRequest returns the request that the query describes. The API server checks its values.
func (q quoteQuery) buildRequest() (*agentv1alpha1.ResourceRequest, error) {
	rr := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, GenerateName: "quote-"}} // the API server generates a name that no other object has
	others := map[string]string{}
	for pair := range strings.SplitSeq(q.Resource, ",") {
		name, amount, complete := strings.Cut(pair, "=")
		switch {
		case name == "" && !complete:
		case !complete:
			return nil, fmt.Errorf("other resources %q have no amount: write for example nvidia.com/gpu=1", pair)
		default:
			others[name] = amount
		}
	}
	amounts, err := view.ParseAmounts(q.CPU, q.Memory, others)
	if err != nil {
		return nil, err
	}
	view.SetDemand(rr, amounts)
	if q.For != "" {
		length, err := time.ParseDuration(q.For)
		if err != nil {
			return nil, fmt.Errorf("duration %q is no time: write for example 8h or 90m", q.For)
		}
		rr.Spec.Duration = &metav1.Duration{Duration: length}
	}
	if q.Priority != "" {
		priority, err := strconv.ParseInt(q.Priority, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("priority %q is no number: write for example 10", q.Priority)
		}
		rr.Spec.Priority = int32(priority)
	}
	if q.Queue != "" {
		rr.Spec.QueuePolicy = brokerv1alpha1.QueuePolicyQueue
	}
	return rr, nil
}

// quotePage is the data of the page Quote.
type quotePage struct {
	quoteQuery
	// Problem says why there is no quote; "" if there is one, or if the user has not asked yet.
	Problem string
	Quote   *view.Preview
	// Verdict says in words who would serve the request, and Level whether that is in order.
	Verdict string
	Level   view.Level
	Columns []view.Column
	Rows    []view.QuoteRow
	// Others are warnings of the API server about something else.
	Others []string
	// Actions is a link to the form that makes the request.
	Actions []actionLink
	// Reserve is the command that makes the request, and Hold the one that holds this decision.
	Reserve, Hold string
}

func buildQuote(ctx context.Context, v *visit) (*content, error) {
	query, filled := quoteQueryOf(v.request.URL.Query())
	data := &quotePage{quoteQuery: query}
	page := &content{Template: "quote", Title: "Quote", Command: "kubectl broker quote", Data: data}
	if !filled {
		return page, nil
	}
	request, err := query.buildRequest()
	if err != nil {
		data.Problem = err.Error()
		return page, nil
	}
	warnings, err := v.site.users.dryRun(ctx, v.visitor.token, request)
	if err != nil {
		data.Problem = err.Error()
		return page, nil
	}
	page.Command = "kubectl broker quote" + query.arguments()
	data.fillIn(view.ParseWarnings(warnings))
	parameters := map[string]string{}
	for _, field := range query.fields() {
		parameters[field.Name] = field.Value
	}
	data.Actions = v.linkToAction("reserve", parameters)
	data.Reserve, data.Hold = v.selectCluster(data.Reserve), v.selectCluster(data.Hold)
	return page, nil
}

// fillIn fills the page with a quote, nil if the API server returned none, and with the other warnings.
func (p *quotePage) fillIn(quote *view.Preview, others []string) {
	p.Others = others
	if quote == nil {
		p.Problem = "The API server accepts the request, but returned no quote: the webhooks of the agent are off, or are those of another release."
		return
	}
	p.Quote = quote
	p.Verdict, p.Level = quote.Judge()
	p.Columns, p.Rows = quote.Table().Columns, quote.Rows()
	p.Reserve = "kubectl broker reserve NAME" + p.arguments()
	if quote.Provider != "" && p.Queue == "" {
		p.Hold = "kubectl broker quote NAME" + p.arguments() + " --hold 5m"
	}
}
