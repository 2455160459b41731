package view

import "strconv"

// Problem describes an Attention in words, for display.
type Problem struct {
	Level Level
	Kind  string
	// Reason is a word that the table of terms explains.
	Reason string
	// Affected is a text with the first affected objects and how long each has had the problem.
	// Objects are the objects in this text.
	Affected string
	Objects  []Ref
	// Cause says why there is a problem and what to do about it. Next is the command line that
	// shows more about it.
	Cause, Next string
}

// DescribeProblems returns the problems of a status in words.
func DescribeProblems(s *Status, snapshot *Snapshot) []Problem {
	out := make([]Problem, len(s.Attention))
	for i := range s.Attention {
		a := &s.Attention[i]
		out[i] = Problem{Level: a.Level, Kind: a.Kind, Reason: a.Reason, Affected: snapshot.describeAffected(a), Cause: describeCause(a), Next: a.Next}
		for j := range a.Objects[:min(len(a.Objects), namesShown)] {
			out[i].Objects = append(out[i].Objects, a.Objects[j].Ref)
		}
	}
	return out
}

// CountRow describes a Count in words, for display.
type CountRow struct{ Title, Total, Phases string }

// CountRows returns the counts of a status in words.
func (s *Status) CountRows() []CountRow {
	rows := make([]CountRow, len(s.Counts))
	for i := range s.Counts {
		c := &s.Counts[i]
		rows[i] = CountRow{titles[c.Kind], strconv.Itoa(c.Total), c.describe()}
	}
	return rows
}

// Has reports whether the snapshot contains an object.
func (s *Snapshot) Has(r Ref) bool { return s.findObject(r) != nil }
