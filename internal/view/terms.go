package view

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Subject is what a condition or reason is about: a kind of object, or a part of one, such as a candidate.
type Subject string

// Values of Subject.
const (
	OfRequest       Subject = "ResourceRequest"
	OfQuote         Subject = "Quote"
	OfBurstPolicy   Subject = "BurstPolicy and CapacityBuffer"
	OfInstruction   Subject = "ReservationInstruction and ProviderInstruction"
	OfLendingPolicy Subject = "LendingPolicy"
	OfAdvertisement Subject = "Advertisement"
	OfReservation   Subject = "Reservation"
	OfPlacement     Subject = "ended placement"
	OfQueue         Subject = "waiting request"
	OfCandidate     Subject = "candidate"
	OfCluster       Subject = "ClusterAdvertisement"
	OfConfig        Subject = "BrokerConfig"
	OfAnswer        Subject = "answer of the REST API"
)

// TermKind is the kind of a term: condition or reason.
type TermKind string

// Values of TermKind.
const (
	Condition TermKind = "condition"
	Reason    TermKind = "reason"
)

// Level says how urgent it is to act.
type Level string

// Values of Level. Normal means that there is nothing to do, Warning that the situation should be checked, and
// Failure that something does not work.
const (
	Normal  Level = ""
	Warning Level = "Warning"
	Failure Level = "Failure"
)

// waits and drains are how long some reasons may last before they need attention. waits is for steps that wait
// for something. drains is for steps that may have to drain a node first.
const (
	waits  = 5 * time.Minute
	drains = 15 * time.Minute
)

// Term explains a condition or a reason of one Subject. Means and Do are in Markdown, with links relative to
// docs/troubleshooting.md.
type Term struct {
	Subject Subject  `json:"subject"`
	Kind    TermKind `json:"kind"`
	// Word is the name of the condition or reason. It does not change between versions.
	Word string `json:"word"`
	// Note says where the word appears, for example "event". It is "" if that is obvious.
	Note string `json:"note,omitempty"`
	// Means says when a condition is true, or what a reason means.
	Means string `json:"means"`
	// Do is the remedy. It is "" if there is nothing to do.
	Do string `json:"do,omitempty"`
	// Level is how urgent it is to act once the reason has lasted for After.
	Level Level         `json:"level,omitempty"`
	After time.Duration `json:"after,omitempty"`
}

// section is a table of terms in the documentation, for one subject and one kind of term.
type section struct {
	Subject Subject
	Kind    TermKind
	Terms   []Term
}

// fallbacks maps a subject to another subject whose reasons also apply to it. reasonOf looks there if it does
// not find a reason under the subject itself.
var fallbacks = map[Subject]Subject{OfReservation: OfRequest, OfInstruction: OfRequest}

// terms contains all terms, in the order in which the documentation lists them.
var terms = joinTerms(memberSections, brokerSections)

func joinTerms(parts ...[]section) (all []Term) {
	for _, s := range slices.Concat(parts...) {
		for _, t := range s.Terms {
			t.Subject, t.Kind = s.Subject, s.Kind
			all = append(all, t)
		}
	}
	return all
}

// Terms returns all terms, in the order in which the documentation lists them.
func Terms() []Term { return slices.Clone(terms) }

// Explain returns the terms with the given name, ignoring case: one for each subject that uses the name.
func Explain(word string) (found []Term) {
	for _, t := range terms {
		if strings.EqualFold(t.Word, word) {
			found = append(found, t)
		}
	}
	return found
}

// Words returns the names of all conditions and reasons, sorted and without duplicates.
func Words() []string {
	words := make([]string, 0, len(terms))
	for _, t := range terms {
		words = append(words, t.Word)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// SimilarWords returns up to five words that contain the text. If there are none, it returns the five words that
// differ from the text in the fewest letters.
func SimilarWords(text string) []string {
	const most = 5
	text = strings.ToLower(text)
	var found []string
	for _, word := range Words() {
		if strings.Contains(strings.ToLower(word), text) {
			found = append(found, word)
		}
	}
	if len(found) == 0 {
		found = Words()
		slices.SortStableFunc(found, func(a, b string) int {
			return cmp.Compare(editDistance(text, strings.ToLower(a)), editDistance(text, strings.ToLower(b)))
		})
	}
	return found[:min(len(found), most)]
}

// editDistance returns how many letters must be inserted, deleted or replaced to turn a into b (the Levenshtein
// distance).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// reasons maps each subject and word to the term of the reason. A subject also has the words of its fallback.
var reasons = indexReasons()

func indexReasons() map[Subject]map[string]*Term {
	index := map[Subject]map[string]*Term{}
	for i := range terms {
		t := &terms[i]
		if t.Kind != Reason {
			continue
		}
		if index[t.Subject] == nil {
			index[t.Subject] = map[string]*Term{}
		}
		index[t.Subject][t.Word] = t
	}
	for subject, other := range fallbacks {
		own := index[subject]
		index[subject] = maps.Clone(index[other])
		maps.Copy(index[subject], own)
	}
	return index
}

// reasonOf returns the term of a reason. If the table does not contain the word, the result has no Means.
func reasonOf(subject Subject, word string) *Term {
	if t, ok := reasons[subject][word]; ok {
		return t
	}
	return &Term{Subject: subject, Kind: Reason, Word: word}
}

// link matches a Markdown link. Its groups are the text and the target.
var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]*)\)`)

// PlainText replaces the links in a Markdown text by their texts, and removes backquotes.
func PlainText(markdown string) string {
	text := link.ReplaceAllString(markdown, "$1")
	return strings.ReplaceAll(text, "`", "")
}

// pages is the address of the documentation.
const pages = "https://github.com/mehdiazizian/liqo-resource-broker/blob/main/docs/"

// Links returns the addresses that a Markdown text links to.
func Links(markdown string) (addresses []string) {
	for _, match := range link.FindAllStringSubmatch(markdown, -1) {
		target := match[2]
		if strings.HasPrefix(target, "#") {
			target = "troubleshooting.md" + target
		}
		if outer, ok := strings.CutPrefix(target, "../"); ok {
			addresses = append(addresses, strings.TrimSuffix(pages, "docs/")+outer)
			continue
		}
		addresses = append(addresses, pages+target)
	}
	return addresses
}

// ReasonTable returns the reasons of a subject that have a remedy as a Markdown table. For candidates, whose reasons
// suggest the remedy, it returns all of them without it.
func ReasonTable(subject Subject) string {
	var table strings.Builder
	if subject == OfCandidate {
		table.WriteString("| reason | the cluster |\n|---|---|\n")
	} else {
		table.WriteString("| reason | means | do |\n|---|---|---|\n")
	}
	for _, t := range terms {
		if t.Subject != subject || t.Kind != Reason || t.Do == "" && subject != OfCandidate {
			continue
		}
		table.WriteString("| `" + t.Word + "`")
		if t.Note != "" {
			table.WriteString(" (" + t.Note + ")")
		}
		table.WriteString(" | " + t.Means + " |")
		if subject != OfCandidate {
			table.WriteString(" " + t.Do + " |")
		}
		table.WriteString("\n")
	}
	return table.String()
}
