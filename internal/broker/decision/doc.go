// Package decision picks the provider of a reservation and explains the choice.
//
// A Market is a table of all candidate clusters: one row for each candidate, one column for each of
// its properties. Advertisements and reservations update it. Decide answers one Request from it:
//
//	begin    resolve names to rows and columns, prepare the criteria
//	check    why a candidate cannot provide (stale, denied, too small, …), if it cannot
//	score    0 to 100 points for each criterion; their weighted sum is the total
//	best     the highest total wins; among equal totals, the cluster ID that sorts first
//
// ExplainTop runs the same checks and scores as Decide, but for every candidate, and describes
// them. It names the same winner: Decide skips only candidates whose total cannot exceed the best
// total found so far. Scores are integers, so totals are exact, and the answer does not depend on
// the order in which candidates were added.
//
// Everything here is a function of its arguments: no clock, no I/O, no logging.
package decision
