// Package message keeps texts within the bounds of the API: messages of conditions, notes of
// events, and foreign text that errors quote.
package message

import "unicode/utf8"

const (
	// MaxNote is the API's limit for the note of an event.
	MaxNote = 1024
	// MaxStatus bounds status.message and the messages of conditions. A message that lists many
	// clusters or namespaces could exceed it.
	MaxStatus = 4096
)

// Clip shortens s to at most limit bytes. It cuts between runes and marks the cut.
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
