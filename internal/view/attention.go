package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Attention is a problem that needs an administrator or user to act. Objects of one kind whose problems have the same
// reason share one Attention.
type Attention struct {
	Level Level  `json:"level"`
	Kind  string `json:"kind"`
	// Reason is the reason of the condition that reports the problem. The command kubectl broker reason explains it.
	Reason string `json:"reason"`
	// Total is how many objects have the problem. Objects contains at most 100 of them. The object that has had the
	// problem longest comes first.
	Objects []Affected `json:"objects"`
	Total   int        `json:"total"`
	// Cause says what the reason means and Remedy what to do, in plain text.
	Cause  string `json:"cause"`
	Remedy string `json:"remedy,omitempty"`
	// Next is the command line that shows more about the problem.
	Next string `json:"next"`
}

// Affected is an object with a problem.
type Affected struct {
	Ref `json:",inline"`
	// Since is when the problem began. It is zero if that is not known.
	Since metav1.Time `json:"since,omitzero"`
	// Detail says how much depends on the object, for example "holds 4 reservations".
	Detail string `json:"detail,omitempty"`
	// Message is the message of the condition.
	Message string `json:"message,omitempty"`
}

// finding is one problem of one object. describe returns the field Detail of the object's Affected; it is nil if
// there is no detail.
type finding struct {
	term     *Term
	level    Level
	ref      Ref
	since    time.Time
	message  string
	describe func() string
}

func compareFindings(a, b finding) int {
	return cmp.Or(a.since.Compare(b.since), compareRefs(a.ref, b.ref))
}

// problem collects the findings of one kind of objects for one reason, also those that are too young to need attention.
type problem struct {
	Attention
	// after is how long the problem must last before it needs attention.
	after  time.Duration
	oldest first[finding]
	// since says when each finding began, in milliseconds of Unix time.
	since []int64
}

// objectsListed is how many objects are listed at most for each problem.
const objectsListed = 100

// attention returns the part of the problem that needs attention at a time. Its Total is 0 if there is none.
func (p *problem) attention(at time.Time) Attention {
	out := p.Attention
	limit := at.Add(-p.after).UnixMilli()
	out.Total = sort.Search(len(p.since), func(i int) bool { return p.since[i] > limit })
	for _, f := range p.oldest.kept[:min(out.Total, len(p.oldest.kept))] {
		affected := Affected{Ref: f.ref, Since: metav1.NewTime(f.since), Message: f.message}
		if f.describe != nil {
			affected.Detail = f.describe()
		}
		out.Objects = append(out.Objects, affected)
	}
	return out
}

// FindAttention returns the problems that need attention, the most urgent first. Objects with the same problem share
// one entry, so that the list fits on a screen even for many clusters.
func (s *Snapshot) FindAttention() []Attention {
	problems := remembered(s, func(m *memo) *once[[]*problem] { return &m.problems }, s.findProblems)
	all := make([]Attention, 0, len(problems))
	for _, p := range problems {
		if a := p.attention(s.At); a.Total > 0 {
			if a.Next = s.whyCommand(a.Objects[0].Ref); a.Reason == brokerv1alpha1.ReasonEnrolmentPending {
				a.Next = s.commandLine("enrolments")
			}
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b Attention) int {
		return cmp.Or(cmp.Compare(urgencyOf(b.Level), urgencyOf(a.Level)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

func urgencyOf(l Level) int { return slices.Index([]Level{Normal, Warning, Failure}, l) }

// findProblems returns the problems of all objects, in no particular order.
func (s *Snapshot) findProblems() []*problem {
	problems := map[[2]string]*problem{}
	s.visitFindings(func(f finding) {
		key := [2]string{f.ref.Kind, f.term.Word}
		p := problems[key]
		if p == nil {
			p = &problem{
				Attention: Attention{Level: f.level, Kind: f.ref.Kind, Reason: f.term.Word, Cause: PlainText(f.term.Means), Remedy: PlainText(f.term.Do)},
				after:     f.term.After, oldest: first[finding]{most: objectsListed, compare: compareFindings},
			}
			problems[key] = p
		}
		p.since = append(p.since, f.since.UnixMilli())
		p.oldest.add(f)
	})
	for _, p := range problems {
		slices.Sort(p.since)
	}
	return slices.Collect(maps.Values(problems))
}

// visitFindings calls report for each problem of each object, also for those that are too young to need attention. It
// leaves out a ReservationInstruction if the snapshot contains its ResourceRequest.
func (s *Snapshot) visitFindings(report func(finding)) {
	if b := s.Broker; b != nil {
		for _, c := range b.Clusters {
			if hasProblem(OfCluster, c.Status.Phase, c.Status.Conditions) {
				findObjectProblems(new(objectOf(c)), report)
			}
		}
		for _, r := range b.Reservations {
			if hasProblem(OfReservation, string(r.Status.Phase), r.Status.Conditions) {
				findObjectProblems(new(objectOf(r)), report)
			}
		}
		b.visitConfig(func(o *object) bool {
			findObjectProblems(o, report)
			return true
		})
		b.findPendingEnrolments(report)
	}
	served := map[string]bool{}
	if s.Member != nil {
		for _, r := range s.Member.Requests {
			served[r.Status.ReservationName] = r.Status.ReservationName != ""
		}
	}
	s.Member.visitEach(func(o *object) bool {
		if o.Ref.Kind != "ReservationInstruction" || !served[o.Reservation] { // otherwise its ResourceRequest has the same conditions
			findObjectProblems(o, report)
		}
		return true
	})
}

// hasProblem reports whether findObjectProblems can find a problem in an object with these conditions. It is faster, for
// the many objects that have none.
func hasProblem(subject Subject, phase string, conditions []metav1.Condition) bool {
	if phase == string(brokerv1alpha1.ReservationFailed) {
		return true
	}
	known := reasons[subject]
	for i := range conditions {
		if t := known[conditions[i].Reason]; t != nil && t.Level != Normal {
			return true
		}
	}
	return false
}

// findObjectProblems calls report for each problem that an object's conditions report, also for those that are too
// young to need attention. Several conditions with the same reason are one problem. Objects in phase Released have
// none.
func findObjectProblems(o *object, report func(finding)) {
	if o.Phase == string(brokerv1alpha1.ReservationReleased) {
		return
	}
	failed := o.Phase == string(brokerv1alpha1.ReservationFailed)
	subject := o.Ref.subject()
	for i := range o.Conditions {
		c := &o.Conditions[i]
		term := reasonOf(subject, c.Reason)
		level := term.Level
		if failed && c.Type == brokerv1alpha1.ConditionReady && level == Normal {
			level = Warning
		}
		if level != Normal && !slices.ContainsFunc(o.Conditions[:i], func(e metav1.Condition) bool { return e.Reason == c.Reason }) {
			report(finding{term: term, level: level, ref: o.Ref, since: conditionSince(o, c), message: c.Message, describe: o.detail})
		}
	}
}

// conditionSince returns since when a condition has had its status. For a condition that is still the default of the
// CRD, this is when the object was created.
func conditionSince(o *object, c *metav1.Condition) time.Time {
	if c.LastTransitionTime.Unix() <= 0 {
		return o.Created
	}
	return c.LastTransitionTime.Time
}

// findPendingEnrolments calls report for each cluster that waits for an administrator's approval.
func (b *BrokerObjects) findPendingEnrolments(report func(finding)) {
	if b.Config == nil {
		return
	}
	config, term := objectOf(b.Config), reasonOf(OfConfig, brokerv1alpha1.ReasonEnrolmentPending)
	for _, p := range b.Config.Status.PendingEnrolments {
		report(finding{term: term, level: term.Level, ref: config.Ref, since: p.Since.Time, describe: func() string { return p.ClusterID + " with key " + p.KeyFingerprint }})
	}
}

// mainBlocker returns the reason with which most clusters were rejected for a waiting request; "" if there is none. It
// ignores the reason Self, which rejects the requester itself.
func mainBlocker(rejected map[string]int32) string {
	for _, reason := range sortByCount(rejected) {
		if reason != "Self" {
			return reason
		}
	}
	return ""
}

// sortByCount returns the keys, those with the highest count first.
func sortByCount(counts map[string]int32) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
}

// countRejections counts the rejected candidates by reason. For a ResourceRequest the counts are incomplete, because
// it lists only its ten best candidates.
func countRejections(candidates []brokerv1alpha1.Candidate) map[string]int32 {
	counts := map[string]int32{}
	for _, c := range candidates {
		if c.Reason != "" {
			counts[c.Reason]++
		}
	}
	return counts
}

// countNoun returns a number followed by its noun in the singular or plural.
func countNoun(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
