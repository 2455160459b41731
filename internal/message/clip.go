// Package message keeps texts within the size limits of the API: messages of conditions, notes
// of events, and texts of other clusters that errors quote. It also sets conditions, and finds changed ones.
package message

import "unicode/utf8"

const (
	// MaxNote is the maximum length in bytes of the note of an event.
	MaxNote = 1024
	// MaxStatus is the maximum length in bytes of status.message and of the message of a
	// condition. A message that lists many clusters or namespaces could exceed it.
	MaxStatus = 4096
)

// Clip shortens s to at most limit bytes. It does not split a character, and replaces the
// removed end with an ellipsis.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
