package accounts

import "time"

// Part names an hour, a day or a month, even one for which the accounts have no rows.
type Part struct {
	Span  Span      `json:"span"`
	Start time.Time `json:"start"`
}

// Name returns a name that identifies the part, for example hour-2026-11-20t10, day-2026-11-20 or
// month-2026-11.
func (p Part) Name() string {
	layout := map[Span]string{Hour: "2006-01-02t15", Day: "2006-01-02", Month: "2006-01"}[p.Span]
	return string(p.Span) + "-" + p.Start.Format(layout)
}

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
