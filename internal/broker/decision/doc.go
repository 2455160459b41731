// Package decision picks the provider of a reservation and explains the choice.
//
// A Market holds every candidate as one row of a table of flat integer columns. Advertisements
// and reservations update it. Decide answers one Request from it:
//
//	begin    resolve names to rows and columns, prepare the criteria
//	check    why a candidate is out (stale, denied, too small, …), or nothing
//	score    0 to 100 for each criterion, weighed and added up
//	best     highest total wins, the first name among equals
//
// Explain runs the same check and the same score over every candidate and keeps the results.
// The two cannot disagree: Decide only skips candidates whose upper bound is below a total
// already reached. Scores are integers, so bounds and ties are exact and the answer does not
// depend on the order in which candidates were added.
//
// Everything here is a function of its arguments: no clock, no I/O, no logging.
package decision
