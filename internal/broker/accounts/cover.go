package accounts

import "time"

// Part names an hour, a day or a month, even one for which the accounts have no rows.
type Part struct {
	Span  Span
	Start time.Time
}

// Name returns the name of the period of this part.
func (p Part) Name() string { return (&Period{Span: p.Span, Start: p.Start}).Name() }

// End returns the end of the part.
func (p Part) End() time.Time { return p.Span.After(p.Start) }

// Cover divides the time between from and to into the longest possible parts, none longer than the
// span longest. It leaves out parts that begin after the last known time (the parameter until),
// because they contain no events yet. from and to must be full hours in UTC; otherwise the result
// is nil or incomplete.
func Cover(from, to, until time.Time, longest Span) []Part {
	var out []Part
	for at := from.UTC(); at.Before(to) && !at.After(until); {
		next, fits := longestPart(at, to, longest)
		if !fits {
			return nil
		}
		out = append(out, next)
		at = next.End()
	}
	return out
}

// longestPart returns the longest part that begins at the first time, does not end after the second
// one, and is not longer than the given span.
func longestPart(at, to time.Time, longest Span) (Part, bool) {
	for _, span := range []Span{Month, Day, Hour} {
		if span == Month && longest != Month || span == Day && longest == Hour {
			continue
		}
		if span.StartOf(at).Equal(at) && !span.After(at).After(to) {
			return Part{span, at}, true
		}
	}
	return Part{}, false
}
