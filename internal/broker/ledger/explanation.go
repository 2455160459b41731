package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Explanation records why a provider was chosen, or why none was: the candidates, best first, and
// the number of rejections for each reason. "" is no explanation.
//
// Every grant in the journal and every reservation in the book has one. So it is a short text that
// leaves out values equal to the previous candidate's:
//
//	availability cost
//	*cluster-1 66.67 50 100 @0.5/EUR
//	8~2 60.4 40.57 = @=
//	8~3 ==
//	8~7 !TooSmall cpu: 8 of 4
//	#Stale=3 TooSmall=1
//
// The first line names the criteria. Each candidate has one line: its ID, its score, its score
// under each criterion, and its price per hour after an @. The names of requested resources without
// a price follow the currency, as in 0.5/EUR/pods,x.com/y. 8~2 is the first 8 characters of the
// previous ID followed by 2, = is the previous value, - is no value, and == means that all values
// are the previous ones. A star marks the chosen candidate. A reason and a message follow a !. The
// last line counts the rejected candidates by reason.
type Explanation string

// LowerScore is the reason of a candidate that could provide but was not chosen, because another
// one has a higher score, or the same score and an ID that sorts earlier.
const LowerScore = "LowerScore"

// Explain encodes an Explanation. IDs, criteria, scores and reasons must not contain spaces, and
// scores must have two decimals.
func Explain(candidates []brokerv1alpha1.Candidate, rejected map[string]int32) Explanation {
	var text strings.Builder
	text.Grow(512) // the result is a copy without the unused memory
	criteria := criteriaOf(candidates)
	text.WriteString(strings.Join(criteria, " "))
	var before line
	for _, c := range candidates {
		l := lineOf(c, criteria)
		text.WriteByte('\n')
		l.writeTo(&text, before)
		before = l
	}
	if len(rejected) > 0 {
		text.WriteString("\n#")
		for i, reason := range slices.Sorted(maps.Keys(rejected)) {
			if i > 0 {
				text.WriteByte(' ')
			}
			fmt.Fprintf(&text, "%s=%d", reason, rejected[reason])
		}
	}
	return Explanation(strings.Clone(text.String()))
}

// Candidates returns the candidates of the explanation, in the order in which Explain got them.
func (e Explanation) Candidates() []brokerv1alpha1.Candidate {
	head, rest, _ := strings.Cut(string(e), "\n")
	criteria := strings.Fields(head)
	out := []brokerv1alpha1.Candidate{}
	var before line
	for text := range strings.Lines(rest) {
		if text = strings.TrimSuffix(text, "\n"); strings.HasPrefix(text, "#") {
			break
		}
		before = parseLine(text, before)
		out = append(out, before.candidateOf(criteria))
	}
	return out
}

// Rejected returns how many candidates were rejected, by reason.
func (e Explanation) Rejected() map[string]int32 {
	_, counts, found := strings.Cut(string(e), "\n#")
	if !found {
		return nil
	}
	out := map[string]int32{}
	for word := range strings.FieldsSeq(counts) {
		reason, count, _ := strings.Cut(word, "=")
		if n, err := strconv.ParseInt(count, 10, 32); err == nil {
			out[reason] = int32(n)
		}
	}
	return out
}

func criteriaOf(candidates []brokerv1alpha1.Candidate) []string {
	var out []string
	for _, c := range candidates {
		for name := range c.Criteria {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// line holds the values of one candidate, including those that the text leaves out.
type line struct {
	id     string
	won    bool
	scores []string
	// price is the amount, the currency and, if there are any, the names of resources without a price,
	// separated by slashes; "" for no price.
	price string
	// why is the reason and the message, separated by a space; "" if the score and the star imply
	// them.
	why string
}

func lineOf(c brokerv1alpha1.Candidate, criteria []string) line {
	l := line{id: c.ClusterID}
	if c.Score != "" {
		l.scores = append(make([]string, 0, 1+len(criteria)), shortenScore(c.Score))
		for _, name := range criteria {
			l.scores = append(l.scores, shortenScore(c.Criteria[name]))
		}
		l.won = c.Reason == ""
	}
	if c.Currency != "" {
		if l.price = c.PricePerHour + "/" + c.Currency; len(c.NotPriced) > 0 {
			l.price += "/" + strings.Join(c.NotPriced, ",")
		}
	}
	if l.scores == nil || !l.won && c.Reason != LowerScore || c.Message != "" {
		l.why = c.Reason + " " + strings.ReplaceAll(c.Message, "\n", " ")
	}
	return l
}

func (l line) writeTo(text *strings.Builder, before line) {
	if l.won {
		text.WriteByte('*')
	}
	if n := commonPrefix(l.id, before.id); n > 2 {
		text.WriteString(strconv.Itoa(n))
		text.WriteByte('~')
		text.WriteString(l.id[n:])
	} else {
		text.WriteString(l.id)
	}
	if l.scores != nil && l.price == before.price && slices.Equal(l.scores, before.scores) {
		text.WriteString(" " + ditto)
	} else {
		l.writeScores(text, before)
	}
	if l.why != "" {
		text.WriteString(" !")
		text.WriteString(l.why)
	}
}

// ditto means that the scores and the price are those of the previous candidate.
const ditto = "=="

func (l line) writeScores(text *strings.Builder, before line) {
	for i, score := range l.scores {
		if i < len(before.scores) && score == before.scores[i] {
			score = "="
		}
		text.WriteByte(' ')
		text.WriteString(score)
	}
	switch l.price {
	case "":
	case before.price:
		text.WriteString(" @=")
	default:
		text.WriteString(" @")
		text.WriteString(l.price)
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// shortenScore returns a score as an Explanation contains it; expandScore is its inverse.
func shortenScore(score string) string {
	if score == "" {
		return "-"
	}
	return strings.TrimSuffix(score, ".00")
}

func expandScore(score string) string {
	switch {
	case score == "-":
		return ""
	case strings.Contains(score, "."):
		return score
	default:
		return score + ".00"
	}
}

func parseLine(text string, before line) line {
	var l line
	text, l.won = strings.CutPrefix(text, "*")
	text, l.why, _ = strings.Cut(text, " !")
	words := strings.Fields(text)
	if len(words) == 0 {
		return l
	}
	l.id = words[0]
	if first, rest, shortened := strings.Cut(l.id, "~"); shortened {
		if n, err := strconv.Atoi(first); err == nil && 0 <= n && n <= len(before.id) {
			l.id = before.id[:n] + rest
		}
	}
	if len(words) == 2 && words[1] == ditto {
		l.scores, l.price = before.scores, before.price
		return l
	}
	for i, score := range words[1:] {
		if price, ok := strings.CutPrefix(score, "@"); ok {
			if l.price = price; price == "=" {
				l.price = before.price
			}
			break
		}
		if score == "=" && i < len(before.scores) {
			score = before.scores[i]
		}
		l.scores = append(l.scores, score)
	}
	return l
}

func (l line) candidateOf(criteria []string) brokerv1alpha1.Candidate {
	c := brokerv1alpha1.Candidate{ClusterID: l.id}
	amount, rest, _ := strings.Cut(l.price, "/")
	currency, names, partly := strings.Cut(rest, "/")
	if c.PricePerHour, c.Currency = amount, currency; partly {
		c.NotPriced = strings.Split(names, ",")
	}
	for i, score := range l.scores {
		switch score = expandScore(score); {
		case i == 0:
			c.Score = score
		case score != "" && i <= len(criteria):
			if c.Criteria == nil {
				c.Criteria = map[string]string{}
			}
			c.Criteria[criteria[i-1]] = score
		}
	}
	if l.why != "" {
		c.Reason, c.Message, _ = strings.Cut(l.why, " ")
		return c
	}
	if !l.won {
		c.Reason = LowerScore
	}
	return c
}
