package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Paint returns a text in the colour of a level, or unchanged if the output has no colours.
type Paint func(level Level, text string) string

// page writes a page of text. It keeps the first error and then writes nothing more, so that callers need not check
// every write.
type page struct {
	out   io.Writer
	paint Paint
	err   error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

// writeTable writes rows in columns. It indents each row by two spaces.
func (p *page) writeTable(header []string, rows [][]string) {
	if p.err != nil {
		return
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	if len(header) > 0 {
		fmt.Fprintln(table, "  "+strings.TrimRight(strings.Join(header, "\t"), "\t"))
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = Clean(row[i])
		}
		fmt.Fprintln(table, "  "+strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	p.err = table.Flush()
}

// Clean replaces line feeds by " / ", and other control characters and characters that change the direction of text by
// spaces. Members write parts of the texts; with such characters, a hostile member could change how the rest of the
// output looks.
func Clean(text string) string {
	text = strings.ReplaceAll(text, "\n", " / ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}

func (p *page) writeHeading(text string) { p.printf("\n%s\n", text) }

// writeSection writes a table with a heading. It writes nothing if there are no rows.
func (p *page) writeSection(heading string, header []string, rows [][]string) {
	if len(rows) > 0 {
		p.writeHeading(heading)
		p.writeTable(header, rows)
	}
}

// levelSign returns a word for a level, for people who see no colours.
func levelSign(l Level) string {
	switch l {
	case Failure:
		return "FAIL"
	case Warning:
		return "warn"
	}
	return "ok"
}

const (
	// barWidth is the width of a bar in characters.
	barWidth = 30
	// namesShown is how many of the affected objects are named for each problem.
	namesShown = 3
)

// WriteStatus prints a status as text for one screen.
func WriteStatus(out io.Writer, s *Status, snapshot *Snapshot, paint Paint) error {
	p := &page{out: out, paint: paint}
	at := s.At.UTC().Format("2006-01-02 15:04:05 UTC")
	if s.Record != 0 {
		at += fmt.Sprintf(", replayed from the journal up to record %d", s.Record)
	}
	p.printf("%s: %s cluster, %s\n", cmp.Or(s.Context, "cluster"), strings.Join(s.Roles, " and "), at)
	p.writeAttention(s, snapshot)
	for _, line := range s.Orders() {
		p.printf("%s\n", Clean(line))
	}
	p.writeMarket(s)
	p.writeHeading("COUNTS")
	var rows [][]string
	for _, c := range s.CountRows() {
		rows = append(rows, []string{c.Title, c.Total, c.Phases})
	}
	p.writeTable(nil, rows)
	p.writeGaps(s.Gaps)
	return p.err
}

// titles maps kinds of objects to their titles in the list of counts.
var titles = map[string]string{
	"ClusterAdvertisement": "clusters", "Reservation": "reservations",
	"ResourceRequest": "requests", "ProviderInstruction": "lent to others",
}

func (p *page) writeAttention(s *Status, snapshot *Snapshot) {
	if len(s.Attention) == 0 {
		p.writeHeading("NEEDS ATTENTION: nothing")
		return
	}
	p.writeHeading(fmt.Sprintf("NEEDS ATTENTION: %d", len(s.Attention)))
	for _, a := range DescribeProblems(s, snapshot) {
		p.printf("  %s  %s %s: %s\n", p.paint(a.Level, levelSign(a.Level)), a.Kind, Clean(a.Reason), Clean(a.Affected))
		p.printf("        %s\n", Clean(a.Cause))
		p.printf("        next: %s\n", Clean(a.Next))
	}
}

// describeAffected lists the first objects that have a problem. For each of them it says how long it has had the
// problem, and adds the object's details.
func (s *Snapshot) describeAffected(a *Attention) string {
	var parts []string
	for i := range a.Objects[:min(len(a.Objects), namesShown)] {
		o := &a.Objects[i]
		facts := []string{}
		if !o.Since.IsZero() {
			facts = append(facts, "for "+s.Age(o.Since.Time))
		}
		if o.Detail != "" {
			facts = append(facts, o.Detail)
		}
		name := o.Name
		if o.Namespace != "" && o.Kind != "ClusterAdvertisement" {
			name = o.Namespace + "/" + name
		}
		parts = append(parts, name+" ("+strings.Join(facts, ", ")+")")
	}
	text := strings.Join(parts, ", ")
	if more := a.Total - namesShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// describeCause returns the cause and the remedy of a problem. If exactly one object is affected and its condition has
// a message, this message is the cause. Otherwise the cause is the general explanation of the reason.
func describeCause(a *Attention) string {
	text := a.Cause
	if len(a.Objects) == 1 && a.Objects[0].Message != "" {
		text = a.Objects[0].Message
	}
	if a.Remedy != "" {
		text = strings.TrimRight(text, ". ") + "; do: " + a.Remedy
	}
	return text
}

// Orders returns lines about the clusters that the administrator drains, and about a paused queue.
func (s *Status) Orders() (lines []string) {
	if len(s.Drained) > 0 {
		lines = append(lines, "drained: "+describeDrained(s.Drained))
	}
	if s.QueuePaused {
		lines = append(lines, "queue: paused")
	}
	return lines
}

func (p *page) writeMarket(s *Status) {
	switch {
	case s.Lending != nil:
		p.writeHeading(fmt.Sprintf("MARKET: %d of %s take new reservations   # reserved  = own use  . rest", s.Lending.Active, countNoun(s.Lending.Known, "cluster", "clusters")))
	case len(s.Market) > 0:
		p.writeHeading("THIS CLUSTER   # reserved  = own use  . rest")
	default:
		return
	}
	var rows [][]string
	for _, share := range s.Market {
		name := share.Resource
		rows = append(rows, []string{
			string(name), "[" + Bar(barWidth, share.Reserved, share.Own, share.Allocatable) + "]",
			FormatAmount(name, share.Allocatable), FormatAmount(name, share.Reserved), FormatAmount(name, share.Own), FormatAmount(name, share.Free), percent(share.Free, share.Allocatable),
		})
	}
	if len(rows) == 0 {
		p.printf("  nothing is lent\n")
		return
	}
	p.writeTable([]string{"RESOURCE", "", "TOTAL", "RESERVED", "OWN USE", "FREE", "FREE OF TOTAL"}, rows)
}

// writeGaps lists the kinds of objects that were not read. Readers then know that such objects may exist.
func (p *page) writeGaps(gaps []Gap) {
	if len(gaps) == 0 {
		return
	}
	p.writeHeading("NOT SHOWN")
	for _, text := range DescribeGaps(gaps) {
		p.printf("  %s\n", Clean(text))
	}
}

// DescribeGaps describes what was not read. It returns one line about each kind that the journal does not have, one
// about the kinds that were read in the same namespace only, one about the kinds that the user may not list, and one
// about each failure.
func DescribeGaps(gaps []Gap) (lines []string) {
	var hidden, namespaces, failures []string
	narrowed := map[string][]string{} // by namespace
	for _, g := range gaps {
		switch {
		case g.Kind == Unrecorded && g.Message == "":
			lines = append(lines, g.Resource+": the journal does not have them")
		case g.Kind == Unrecorded:
			lines = append(lines, g.Resource+": "+g.Message)
		case g.Kind == Unread:
			failures = append(failures, "FAIL: "+g.Resource+" could not be read: "+g.Message)
		case g.Namespace != "":
			if narrowed[g.Namespace] == nil {
				namespaces = append(namespaces, g.Namespace)
			}
			narrowed[g.Namespace] = append(narrowed[g.Namespace], g.Resource)
		default:
			hidden = append(hidden, g.Resource)
		}
	}
	for _, namespace := range namespaces {
		lines = append(lines, strings.Join(narrowed[namespace], ", ")+" outside namespace "+namespace+": you may not list them")
	}
	if len(hidden) > 0 {
		lines = append(lines, strings.Join(hidden, ", ")+": you may not list them")
	}
	return append(lines, failures...)
}

const storyLines = 15

// briefFacts are the facts that WriteStory prints, if there is room.
var briefFacts = []string{"asks for", "granted", "queue", "behind", "reservation", "node", "request", "consumer", "amounts", "last heard", "holds", "ends"}

// WriteStory prints the cause and the remedy of a story, the output of the command why, with the facts that they need.
// WriteWholeStory prints the rest.
func WriteStory(out io.Writer, st *Story, snapshot *Snapshot, paint Paint) error {
	p := &page{out: out, paint: paint}
	p.writeSubject(st)
	var tail []Fact
	if gaps := DescribeGaps(st.Gaps); len(gaps) > 0 {
		tail = append(tail, Fact{"not shown", strings.Join(gaps, "; ")})
	}
	tail = append(tail, Fact{"more", snapshot.whyCommand(st.Subject) + " -o wide"})
	rejected := st.rejectedRows()
	room := storyLines - 1 - len(rejected) - len(tail)
	for i, step := range st.Next {
		lines := []Fact{{"cause", step.Text}, {"do", step.Do}, {"run", step.Command}}
		lines = slices.DeleteFunc(lines, func(f Fact) bool { return f.Text == "" })
		if step.ofCandidate && len(rejected) > 0 || i > 0 && len(lines) > room {
			continue
		}
		if step.Level == Normal && step.Do == "" {
			lines[0].Name = "next"
		}
		room -= len(lines)
		p.writeFacts(lines, step.Level)
	}
	facts := slices.DeleteFunc(st.briefFacts(), func(f Fact) bool { return f.Text == "" })
	p.writeFacts(facts[:max(0, min(len(facts), room))], Normal)
	if len(rejected) > 0 {
		p.writeTable(rejected[0], rejected[1:])
	}
	p.writeFacts(tail, Normal)
	return p.err
}

func (p *page) writeFacts(facts []Fact, level Level) {
	for _, f := range facts {
		p.printf("  %-11s %s\n", f.Name, p.paint(level, Clean(f.Text)))
	}
}

// briefFacts returns the facts that say most about the causes.
func (st *Story) briefFacts() []Fact {
	var facts factList
	if !slices.ContainsFunc(st.Next, func(s Step) bool { return strings.Contains(s.Text, st.Message) }) {
		facts.add("says", st.Message)
	}
	for _, f := range st.Facts {
		if slices.Contains(briefFacts, f.Name) {
			facts = append(facts, f)
		}
	}
	if c := st.chosenCandidate(); c != nil && len(st.Candidates) > 1 {
		others := make([]string, 0, len(st.Candidates))
		for i := range st.Candidates {
			if o := &st.Candidates[i]; o != c {
				others = append(others, o.ClusterID+" "+strings.TrimSpace(o.Score+" "+o.Reason))
			}
		}
		facts.add("chosen", strings.TrimSpace(c.ClusterID+" "+c.Score)+" before "+strings.Join(others, ", "))
	}
	ended := make([]string, 0, len(st.Placements))
	for _, a := range st.Placements {
		if a.Reason != "" {
			ended = append(ended, a.ClusterID+" "+a.Reason+": "+a.Means)
		}
	}
	facts.add("left", strings.Join(ended, "; "))
	return facts
}

const rejectedShown = 3

// rejectedRows returns a table of the rejected candidates with its header, if no provider was found.
func (st *Story) rejectedRows() [][]string {
	if st.chosenCandidate() != nil {
		return nil
	}
	var rows [][]string
	for _, c := range st.Candidates {
		if c.Reason != "Self" {
			rows = append(rows, []string{c.ClusterID, c.Reason, c.Message, cmp.Or(c.Remedy, "-")})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if more := len(rows) - rejectedShown; more > 0 {
		rows = append(rows[:rejectedShown], []string{fmt.Sprintf("and %d more", more)})
	}
	return slices.Insert(rows, 0, []string{"CLUSTER", "REASON", "MESSAGE", "WHAT WOULD HELP"})
}

func (p *page) writeSubject(st *Story) {
	where := ""
	if st.Subject.Namespace != "" {
		where = " in namespace " + st.Subject.Namespace
	}
	p.printf("%s %s%s of %s: %s\n", st.Subject.Kind, st.Subject.Name, where, cmp.Or(st.Context, "this cluster"), strings.ToUpper(cmp.Or(st.Phase, "found")))
}

// WriteWholeStory prints a story with all conditions, candidates, attempts and events.
func WriteWholeStory(out io.Writer, st *Story, snapshot *Snapshot, paint Paint) error {
	p := &page{out: out, paint: paint}
	p.writeSubject(st)
	if st.Message != "" {
		p.printf("%s\n", Clean(st.Message))
	}
	p.printf("\n")
	var rows [][]string
	for _, f := range st.Facts {
		rows = append(rows, []string{f.Name, f.Text})
	}
	p.writeTable(nil, rows)
	p.writeConditions(st, snapshot)
	rows = nil
	for _, c := range st.Candidates {
		rows = append(rows, []string{c.ClusterID, cmp.Or(c.Score, "-"), cmp.Or(c.Reason, "chosen"), cmp.Or(c.Price, "-"), cmp.Or(c.Message, "-"), cmp.Or(c.Remedy, "-")})
	}
	p.writeSection("CANDIDATES", []string{"CLUSTER", "SCORE OF 100", "REASON", "PRICE", "MESSAGE", "WHAT WOULD HELP"}, rows)
	rows = nil
	for _, c := range st.Placements {
		rows = append(rows, []string{fmt.Sprint(c.Number), c.ClusterID, c.State, cmp.Or(c.Reason, "-"), c.Means})
	}
	p.writeSection("ATTEMPTS", []string{"PLACEMENT", "CLUSTER", "STATE", "ENDED BY", ""}, rows)
	rows = nil
	for _, e := range st.Events {
		rows = append(rows, []string{snapshot.Age(e.At.Time) + " ago", e.Type, e.Reason, e.Object.Short(), e.Message})
	}
	p.writeSection("EVENTS", nil, rows)
	p.writeHeading("NEXT")
	for _, step := range st.Next {
		p.printf("  %s\n", p.paint(step.Level, Clean(step.Text)))
		if step.Do != "" {
			p.printf("    do: %s\n", Clean(step.Do))
		}
		if step.Command != "" {
			p.printf("    %s\n", Clean(step.Command))
		}
	}
	p.writeGaps(st.Gaps)
	return p.err
}

func (p *page) writeConditions(st *Story, s *Snapshot) {
	var rows [][]string
	var last ConditionRow
	for _, c := range st.Conditions {
		object := ""
		if c.Object != last.Object || c.Context != last.Context {
			object = strings.TrimPrefix(c.Context+":"+c.Object.Short(), ":")
		}
		last = c
		mark := ""
		if c.Level != Normal {
			mark = levelSign(c.Level)
		}
		rows = append(rows, []string{object, c.Type, c.Status, c.Reason, mark, s.Age(c.Since.Time), c.Message})
	}
	p.writeSection("CONDITIONS", []string{"OBJECT", "CONDITION", "STATUS", "REASON", "", "SINCE", "MESSAGE"}, rows)
}
