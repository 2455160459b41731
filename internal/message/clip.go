// Package message keeps what the product tells people within the bounds of the API: messages
// of conditions, notes of events, and words of others that errors repeat.
package message

import "unicode/utf8"

const (
	// MaxNote bounds the note of an event in the API.
	MaxNote = 1024
	// MaxStatus bounds status.message and the message of a condition. One that names many
	// clusters or namespaces may be longer.
	MaxStatus = 4096
)

// Clip shortens s to at most limit bytes. It cuts between runes, and marks the cut.
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
