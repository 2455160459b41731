package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Plan is the output of the command plan: what a change would cause.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	// Change names the planned change.
	Change string `json:"change"`
	// At is the time from which the plan looks ahead, and Until is the time at which it ends.
	At    metav1.Time `json:"at"`
	Until metav1.Time `json:"until"`
	// Record is the position of the journal from which the plan was made.
	Record uint64 `json:"record"`
	// Affected are the reservations for which the change makes a difference, the worst outcomes first.
	Affected []PlannedReservation `json:"affected"`
	// Requests are the planned requests, in their order.
	Requests []PlannedRequest `json:"requests,omitempty"`
	// Without and With are the sums at the time Until.
	Without PlanTotals `json:"without"`
	With    PlanTotals `json:"with"`
	// Assumptions say what the plan takes for granted.
	Assumptions []string `json:"assumptions"`
}

// PlannedReservation is a reservation that a change affects.
type PlannedReservation struct {
	// Ref names the object of kind Reservation that shows the reservation in the broker's cluster.
	Ref         `json:",inline"`
	Reservation string              `json:"reservation"`
	Requester   string              `json:"requester"`
	Resources   corev1.ResourceList `json:"resources,omitempty"`
	Outcome     PlannedOutcome      `json:"outcome"`
	// Without and With are what happens without and with the change. Both begin with the present state.
	Without []PlannedStep `json:"without"`
	With    []PlannedStep `json:"with"`
}

// PlannedOutcome says what a change means for a reservation.
type PlannedOutcome string

// The outcomes of a change, the worst first.
const (
	// OutcomeEnds means that the reservation fails or is preempted, but would not without the change.
	OutcomeEnds PlannedOutcome = "Ends"
	// OutcomeWaits means that the reservation waits in the queue at the end of the plan, but would neither wait,
	// fail nor be preempted without the change.
	OutcomeWaits PlannedOutcome = "Waits"
	// OutcomeMoves means any other difference, such as another provider, or the same provider at another time.
	OutcomeMoves PlannedOutcome = "Moves"
	// OutcomeServed means that the reservation would wait, fail or be preempted without the change, but does none of
	// these with it.
	OutcomeServed PlannedOutcome = "Served"
)

var outcomes = []PlannedOutcome{OutcomeEnds, OutcomeWaits, OutcomeMoves, OutcomeServed}

// PlannedStep is a state of a reservation that lasts until the next step.
type PlannedStep struct {
	At metav1.Time `json:"at"`
	// Phase is Reserved, Queued or Ended.
	Phase string `json:"phase"`
	// Provider is the cluster that serves the reservation while the phase is Reserved. PerHour is its price for one
	// hour, in Currency. NotPriced are the resources for which it names no price.
	Provider  string   `json:"provider,omitempty"`
	PerHour   string   `json:"perHour,omitempty"`
	Currency  string   `json:"currency,omitempty"`
	NotPriced []string `json:"notPriced,omitempty"`
	// Reason is why the reservation has ended. Message explains why it waits or has ended.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Phases of a PlannedStep.
const (
	PlannedReserved = "Reserved"
	PlannedQueued   = "Queued"
	PlannedEnded    = "Ended"
)

// PlannedRequest is a request of a plan.
type PlannedRequest struct {
	// Number counts from 1.
	Number int           `json:"number"`
	Steps  []PlannedStep `json:"steps,omitempty"`
	// Refused is why the broker would refuse the request; "" if it would not.
	Refused string `json:"refused,omitempty"`
}

// PlanTotals are sums over all clusters.
type PlanTotals struct {
	// Served is how many reservations a cluster serves, Waiting how many wait in the queue.
	Served  int `json:"served"`
	Waiting int `json:"waiting"`
	// PerHour is what the served reservations cost per hour in all: one sum for each currency, sorted by currency.
	PerHour []PlannedPrice `json:"perHour,omitempty"`
	// NotPriced is how many served reservations have resources without a price, which PerHour leaves out.
	NotPriced int `json:"notPriced,omitempty"`
	// Lendable and Free are sums over the clusters that take new reservations, in millicores, bytes or pieces.
	Lendable map[corev1.ResourceName]int64 `json:"lendable,omitempty"`
	Free     map[corev1.ResourceName]int64 `json:"free,omitempty"`
}

// PlannedPrice is an amount of money per hour.
type PlannedPrice struct {
	PerHour  string `json:"perHour"`
	Currency string `json:"currency"`
}

func (s *PlannedStep) isLost() bool {
	return s.Phase == PlannedEnded && (s.Reason == "Failed" || s.Reason == "Preempted")
}

func (r *PlannedReservation) judgeOutcome() PlannedOutcome {
	with, without := &r.With[len(r.With)-1], &r.Without[len(r.Without)-1]
	switch {
	case with.isLost() && !without.isLost():
		return OutcomeEnds
	case with.Phase == PlannedQueued && without.Phase != PlannedQueued && !without.isLost():
		return OutcomeWaits
	case !with.isLost() && with.Phase != PlannedQueued && (without.isLost() || without.Phase == PlannedQueued):
		return OutcomeServed
	}
	return OutcomeMoves
}

// Complete sets the outcomes of the affected reservations, and sorts them.
func (p *Plan) Complete() {
	p.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: "Plan"}
	for i := range p.Affected {
		p.Affected[i].Outcome = p.Affected[i].judgeOutcome()
	}
	slices.SortFunc(p.Affected, func(a, b PlannedReservation) int {
		return cmp.Or(cmp.Compare(slices.Index(outcomes, a.Outcome), slices.Index(outcomes, b.Outcome)), compareRefs(a.Ref, b.Ref), cmp.Compare(a.Reservation, b.Reservation))
	})
}

// Harms reports whether a reservation loses its capacity, or a planned request is not served at once.
func (p *Plan) Harms() bool {
	_, level := p.Judge()
	return level != Normal
}

// Judge says in words whether the plan harms, and how serious that is.
func (p *Plan) Judge() (string, Level) {
	has := func(outcome PlannedOutcome) bool {
		return slices.ContainsFunc(p.Affected, func(r PlannedReservation) bool { return r.Outcome == outcome })
	}
	_, later, never := p.countRequests()
	switch {
	case has(OutcomeEnds):
		return "reservations would end", Failure
	case has(OutcomeWaits):
		return "reservations would lose their capacity and wait", Warning
	case later+never > 0:
		return "not every request would be served at once", Warning
	case len(p.Requests) > 0:
		return "every request would be served at once, and no reservation would lose its capacity", Normal
	}
	return "no reservation would lose its capacity", Normal
}

// countRequests counts the planned requests that are served at once, later, and not at all.
func (p *Plan) countRequests() (now, later, never int) {
	for i := range p.Requests {
		switch steps := p.Requests[i].Steps; {
		case len(steps) > 0 && steps[0].Phase == PlannedReserved:
			now++
		case slices.ContainsFunc(steps, func(s PlannedStep) bool { return s.Phase == PlannedReserved }):
			later++
		default:
			never++
		}
	}
	return now, later, never
}

// WritePlan prints a plan as text.
func WritePlan(out io.Writer, plan *Plan, paint Paint) error {
	p := &page{out: out, paint: paint}
	p.printf("%s\n", Clean(plan.Change))
	p.printf("nothing was changed; %s\n", plan.DescribeOrigin())
	if len(plan.Requests) > 0 {
		p.writeHeading("REQUESTS: " + plan.DescribeRequests())
		p.writePlanTable(plan.RequestTable())
		if number, why := plan.FindShortage(); number > 0 {
			p.printf("  capacity runs out with request %d: %s\n", number, p.paint(Warning, Clean(why)))
		}
	}
	p.writeHeading("AFFECTED: " + plan.DescribeAffected())
	if len(plan.Affected) > 0 {
		p.writePlanTable(plan.AffectedTable())
	}
	for i := range plan.Affected {
		if r := &plan.Affected[i]; r.Why() != "" {
			p.printf("  %s: %s\n", p.paint(Warning, Clean(r.Name)), Clean(r.Why()))
		}
	}
	p.writeHeading("IN " + strings.ToUpper(plan.Ahead()))
	p.writePlanTable(plan.TotalTable())
	p.writeHeading("ASSUMED")
	for _, text := range plan.Assumptions {
		p.printf("  %s\n", text)
	}
	return p.err
}

func (p *page) writePlanTable(t Table) {
	headings, rows := make([]string, len(t.Columns)), make([][]string, len(t.Rows))
	for i := range t.Columns {
		headings[i] = strings.ToUpper(t.Columns[i].Name)
	}
	for i := range t.Rows {
		rows[i] = t.Rows[i].Cells
	}
	p.writeTable(headings, rows)
}

// Ahead is how far the plan looks ahead, for example "24h".
func (p *Plan) Ahead() string { return duration.HumanDuration(p.Until.Sub(p.At.Time)) }

// DescribeOrigin says from which record of the journal and at what time the plan was made, and how far it looks ahead.
func (p *Plan) DescribeOrigin() string {
	return fmt.Sprintf("from record %d of the journal, at %s, %s ahead", p.Record, p.At.UTC().Format("2006-01-02 15:04:05 UTC"), p.Ahead())
}

// DescribeAffected counts the affected reservations by outcome.
func (p *Plan) DescribeAffected() string {
	if len(p.Affected) == 0 {
		return "no reservation"
	}
	var counts []string
	for _, o := range outcomes {
		n := 0
		for i := range p.Affected {
			if p.Affected[i].Outcome == o {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, strings.ToLower(string(o))))
		}
	}
	return fmt.Sprintf("%s (%s)", countNoun(len(p.Affected), "reservation", "reservations"), strings.Join(counts, ", "))
}

// AffectedTable returns a table with one row for each affected reservation, in the order of Affected.
func (p *Plan) AffectedTable() Table {
	t := Table{Columns: []Column{{Name: "Reservation"}, {Name: "Requester"}, {Name: "Asks for"}, {Name: "Now"}, {Name: "Without the plan"}, {Name: "With it"}, {Name: "Per hour"}}}
	for i := range p.Affected {
		r := &p.Affected[i]
		t.Rows = append(t.Rows, Row{Ref: r.Ref, Cells: []string{
			strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"), r.Requester, FormatAmounts(r.Resources), r.With[0].describe(),
			p.describeSteps(r.Without[1:], "stays"), p.describeSteps(r.With[1:], "stays"), describePrices(r),
		}})
	}
	return t
}

// Why explains why the change makes the reservation end or wait. It returns "" for other outcomes.
func (r *PlannedReservation) Why() string {
	if r.Outcome != OutcomeEnds && r.Outcome != OutcomeWaits {
		return ""
	}
	return r.With[len(r.With)-1].Message
}

// describe returns the state of a step: the provider, "waits" or why it has ended.
func (s *PlannedStep) describe() string {
	switch s.Phase {
	case PlannedQueued:
		return "waits"
	case PlannedEnded:
		return "ends (" + s.Reason + ")"
	}
	return s.Provider
}

// describeSteps lists steps with their times.
func (p *Plan) describeSteps(steps []PlannedStep, none string) string {
	if len(steps) == 0 {
		return none
	}
	var parts []string
	for i := range steps {
		when := "at once"
		if left := steps[i].At.Sub(p.At.Time); left >= time.Second {
			when = "in " + duration.HumanDuration(left)
		}
		parts = append(parts, when+": "+steps[i].describe())
	}
	return strings.Join(parts, ", ")
}

// describePrices returns the price per hour at present and at the last provider of the plan.
func describePrices(r *PlannedReservation) string {
	before, after := r.With[0].priceText(), ""
	for i := range r.With[1:] {
		after = cmp.Or(r.With[1+i].priceText(), after)
	}
	switch {
	case before == after || after == "":
		return cmp.Or(before, "-")
	case before == "":
		return after
	}
	return before + ", then " + after
}

func (s *PlannedStep) priceText() string {
	switch {
	case s.Provider == "":
		return ""
	case s.Currency == "":
		return NotPriced
	}
	return WithNotPriced(s.PerHour+" "+s.Currency, s.NotPriced)
}

// DescribeRequests counts the planned requests by when they are served.
func (p *Plan) DescribeRequests() string {
	now, later, never := p.countRequests()
	return fmt.Sprintf("%d served at once, %d later, %d not within %s", now, later, never, p.Ahead())
}

// RequestTable returns a table of the planned requests. Consecutive requests to which the same happens share a row.
func (p *Plan) RequestTable() Table {
	t := Table{Columns: []Column{{Name: "Request"}, {Name: "What happens"}, {Name: "Per hour"}}}
	first := 0
	for i := range p.Requests {
		if i+1 < len(p.Requests) && p.describeRequest(i) == p.describeRequest(i+1) {
			continue
		}
		numbers := fmt.Sprint(p.Requests[first].Number)
		if first < i {
			numbers += " to " + fmt.Sprint(p.Requests[i].Number)
		}
		price := ""
		for j := range p.Requests[i].Steps {
			price = cmp.Or(p.Requests[i].Steps[j].priceText(), price)
		}
		t.Rows = append(t.Rows, Row{Cells: []string{numbers, p.describeRequest(i), cmp.Or(price, "-")}})
		first = i + 1
	}
	return t
}

// FindShortage returns the number of the first planned request that is not served at once, and the reason. It returns 0
// if there is none, or if the reason is not known.
func (p *Plan) FindShortage() (number int, why string) {
	for i := range p.Requests {
		r := &p.Requests[i]
		why = r.Refused
		if len(r.Steps) > 0 && r.Steps[0].Phase != PlannedReserved {
			why = r.Steps[0].Message
		}
		if why != "" {
			return r.Number, why
		}
	}
	return 0, ""
}

func (p *Plan) describeRequest(i int) string {
	if p.Requests[i].Refused != "" {
		return "refused"
	}
	return p.describeSteps(p.Requests[i].Steps, "-")
}

// Resources are the resources that clusters lend at the end of the plan, sorted. They are the last rows of TotalTable.
func (p *Plan) Resources() []corev1.ResourceName {
	return sortedResources(p.Without.Lendable, p.With.Lendable)
}

// TotalTable returns a table of the sums at the end of the plan.
func (p *Plan) TotalTable() Table {
	t := Table{Columns: []Column{{}, {Name: "Without the plan"}, {Name: "With it"}}}
	addRow := func(cells ...string) { t.Rows = append(t.Rows, Row{Cells: cells}) }
	addRow("reservations served", fmt.Sprint(p.Without.Served), fmt.Sprint(p.With.Served))
	addRow("requests waiting", fmt.Sprint(p.Without.Waiting), fmt.Sprint(p.With.Waiting))
	addRow("price per hour", p.Without.describePrice(), p.With.describePrice())
	for _, name := range p.Resources() {
		free := func(t *PlanTotals) string {
			return FormatAmount(name, t.Free[name]) + " of " + FormatAmount(name, t.Lendable[name])
		}
		addRow("free "+string(name), free(&p.Without), free(&p.With))
	}
	return t
}

func (t *PlanTotals) describePrice() string {
	var parts []string
	for _, m := range t.PerHour {
		parts = append(parts, m.PerHour+" "+m.Currency)
	}
	if t.NotPriced > 0 {
		parts = append(parts, fmt.Sprintf("%d not fully priced", t.NotPriced))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
