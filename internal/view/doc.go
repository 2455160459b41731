// Package view turns API objects into what the kubectl plugin and the console show: tables, bars, problems with their
// causes, and next steps.
//
// Its functions take API objects and the current time and return values; they use no client, clock or logger. The
// commands only print these values, as text or JSON. The package also contains the table of all conditions and reasons
// with their meanings and remedies, from which parts of docs/troubleshooting.md and docs/decision.md are generated.
package view
