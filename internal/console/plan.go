package console

import (
	"context"
	"html/template"
	"net/http"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// PlanQuery is a question of the page Plan: the name, argument and flags of a command of kubectl broker plan, as the user
// typed them.
type PlanQuery struct {
	// Change is the name of the command: drain, add or demand.
	Change string
	// Cluster is the ID of the cluster that the change is about; "" for demand.
	Cluster string
	// Flags maps the names of flags to values that are not empty.
	Flags map[string]string
}

// PlanSource makes plans from a broker's journal with the rights of the console's user.
type PlanSource interface {
	Plan(ctx context.Context, q PlanQuery) (*view.Plan, error)
}

// planQuestion is one of the questions that the page Plan can ask.
type planQuestion struct {
	Change, Title string
	// Asks says in a sentence what the answer tells.
	Asks string
	// Cluster is the label of the field for the cluster; "" if the question is about none. Takes is true if the cluster
	// must take part already.
	Cluster string
	Takes   bool
	Fields  []planField
}

// planField is the field for a flag.
type planField struct {
	Flag, Label, Example string
	// Checked is true for a boolean flag, which the page shows as a checkbox. Names is true for a flag whose value is
	// the ID of a cluster.
	Checked, Names bool
}

// planQuestions lists the questions, in the order of the page. Each field is a flag of the command with the name Change.
var planQuestions = []planQuestion{
	{
		Change: "drain", Title: "Drain a cluster", Cluster: "Cluster to drain", Takes: true,
		Asks: "Which reservations would leave the cluster, where would they go, and which would wait or end?",
		Fields: []planField{
			{Flag: "notice", Label: "Notice", Example: "10m"}, {Flag: "ahead", Label: "Look ahead", Example: "until the notice ends"},
			{Flag: "cordon-only", Label: "Cordon only: reservations may stay", Checked: true},
		},
	},
	{
		Change: "add", Title: "Add a cluster", Cluster: "ID of the new cluster",
		Asks: "Which waiting requests would one more cluster serve, and when?",
		Fields: []planField{
			{Flag: "cpu", Label: "CPU, in cores", Example: "64"}, {Flag: "memory", Label: "Memory", Example: "256Gi"}, {Flag: "resource", Label: "Other resources", Example: "nvidia.com/gpu=4"},
			{Flag: "region", Label: "Region", Example: "eu-west"},
			{Flag: "cpu-cost", Label: "Price of a core per hour", Example: "0.02"}, {Flag: "memory-cost", Label: "Price of a GiB per hour", Example: "0.002"}, {Flag: "currency", Label: "Currency", Example: "EUR"},
			{Flag: "ahead", Label: "Look ahead", Example: "24h"},
		},
	},
	{
		Change: "demand", Title: "More requests",
		Asks: "Who would serve further requests at what price, and with which request does capacity run out?",
		Fields: []planField{
			{Flag: "cpu", Label: "CPU of each, in cores", Example: "4"}, {Flag: "memory", Label: "Memory of each", Example: "8Gi"}, {Flag: "resource", Label: "Other resources", Example: "nvidia.com/gpu=1"},
			{Flag: "times", Label: "Number of requests", Example: "1"}, {Flag: "for", Label: "Duration of each", Example: "the broker's defaultTTL"},
			{Flag: "priority", Label: "Priority", Example: "0"}, {Flag: "requester", Label: "Requester", Example: "a new cluster", Names: true}, {Flag: "provider", Label: "Only provider", Example: "any", Names: true},
			{Flag: "ahead", Label: "Look ahead", Example: "24h"},
		},
	},
}

// questionNamed returns the question about a change; the first one if there is no such change.
func questionNamed(change string) *planQuestion {
	for i := range planQuestions {
		if planQuestions[i].Change == change {
			return &planQuestions[i]
		}
	}
	return &planQuestions[0]
}

// queryOf reads the form of the question. It reports whether the user has filled in anything.
func (p *planQuestion) queryOf(r *http.Request) (q PlanQuery, filled bool) {
	values := r.URL.Query()
	q = PlanQuery{Change: p.Change, Flags: map[string]string{}}
	if p.Cluster != "" {
		q.Cluster = strings.TrimSpace(values.Get("cluster"))
	}
	for _, field := range p.Fields {
		if value := strings.TrimSpace(values.Get(field.Flag)); value != "" {
			q.Flags[field.Flag] = value
		}
	}
	return q, q.Cluster != "" || len(q.Flags) > 0
}

// command returns the command that makes the same plan. The query must be one that a PlanSource accepts.
func (p *planQuestion) command(q PlanQuery) string {
	text := "kubectl broker plan " + p.Change
	if q.Cluster != "" {
		text += " " + quoteWord(q.Cluster)
	}
	for _, field := range p.Fields {
		if value := q.Flags[field.Flag]; !field.Checked {
			text = withFlags(text, flagValue{field.Flag, value})
		} else if value != "" {
			text += " --" + field.Flag
		}
	}
	return text
}

// maxClustersOffered limits how many clusters a form suggests.
const maxClustersOffered = 1000

// planPage is the data of the page Plan.
type planPage struct {
	Questions []planQuestion
	Question  *planQuestion
	Query     PlanQuery
	// Clusters are the IDs that the form suggests.
	Clusters []string
	// Problem says why there is no plan; "" if there is one, or if the user has not asked yet.
	Problem string
	Plan    *view.Plan
	// Verdict says whether the change does harm, and Level how much that matters.
	Verdict string
	Level   view.Level
	// Shortage is the number of the first planned request that is not served at once; 0 for none.
	Shortage int
	Reason   string
	Requests view.Table
	Affected []affectedRow
	Totals   []planTotal
	Next     string
}

// affectedRow is a reservation that the change affects.
type affectedRow struct {
	Outcome view.PlannedOutcome
	Level   view.Level
	Link    string
	Cells   []string
	Why     string
}

// planTotal is a sum without and with the change. The bars are "" for sums that are not a share of something.
type planTotal struct {
	Name, Without, With string
	WithoutBar, WithBar template.HTML
}

func buildPlan(ctx context.Context, v *visit) (*content, error) {
	question := questionNamed(v.request.URL.Query().Get("change"))
	page := &content{Template: "plan", Title: "Plan", Command: "kubectl broker plan " + question.Change}
	if v.site.plans == nil {
		page.Template = "notice"
		page.Data = "The console in the cluster does not make plans. A plan replays the broker's journal, which the broker would have to do for this page, with its own rights. " +
			"The command below, and this page of kubectl broker console, do it on your computer with your rights."
		page.Command = "kubectl broker plan"
		return page, nil
	}
	query, filled := question.queryOf(v.request)
	data := &planPage{Questions: planQuestions, Question: question, Query: query, Clusters: clusterIDs(v.snapshot)}
	page.Data = data
	switch {
	case !filled:
		return page, nil
	case question.Cluster != "" && query.Cluster == "":
		data.Problem = "Fill in \"" + question.Cluster + "\"."
		return page, nil
	}
	plan, err := v.site.plans.Plan(ctx, query)
	if err != nil {
		data.Problem = err.Error()
		return page, nil
	}
	page.Command = question.command(query)
	data.fillIn(plan, v)
	return page, nil
}

// clusterIDs returns the IDs of the first clusters that the visitor may list.
func clusterIDs(s *view.Snapshot) (ids []string) {
	clusters := s.Broker.Clusters
	for _, c := range clusters[:min(len(clusters), maxClustersOffered)] {
		ids = append(ids, c.Spec.ClusterID)
	}
	return ids
}

// levelsOfOutcomes are the levels of the outcomes that are not in order.
var levelsOfOutcomes = map[view.PlannedOutcome]view.Level{view.OutcomeEnds: view.Failure, view.OutcomeWaits: view.Warning}

// fillIn fills the page with a plan.
func (p *planPage) fillIn(plan *view.Plan, v *visit) {
	p.Plan, p.Requests = plan, plan.RequestTable()
	p.Verdict, p.Level = plan.Judge()
	p.Shortage, p.Reason = plan.FindShortage()
	from, end, next := rowsFrom(v.request.URL, len(plan.Affected))
	p.Next = next
	for i, row := range plan.AffectedTable().Rows[from:end] {
		r := &plan.Affected[from+i]
		shown := affectedRow{Outcome: r.Outcome, Level: levelsOfOutcomes[r.Outcome], Cells: row.Cells, Why: r.Why()}
		if v.snapshot.Has(r.Ref) {
			shown.Link = linkTo(r.Ref)
		}
		p.Affected = append(p.Affected, shown)
	}
	for _, row := range plan.TotalTable().Rows {
		p.Totals = append(p.Totals, planTotal{Name: row.Cells[0], Without: row.Cells[1], With: row.Cells[2]})
	}
	resources := plan.Resources()
	for i, name := range resources {
		total := &p.Totals[len(p.Totals)-len(resources)+i]
		total.WithoutBar, total.WithBar = drawFree(name, &plan.Without), drawFree(name, &plan.With)
	}
}

// planToDrain returns the address of the plan to drain the cluster of a ClusterAdvertisement. It returns "" for other
// objects, and if the console makes no plans.
func (v *visit) planToDrain(of view.Ref) string {
	if v.site.plans == nil || of.Kind != "ClusterAdvertisement" {
		return ""
	}
	return addressOf("/plan", map[string]string{"change": "drain", "cluster": v.snapshot.Broker.FindCluster(of).Spec.ClusterID})
}
