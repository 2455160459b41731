package wire

import "unicode/utf8"

const (
	// MaxNote bounds the note of an event in the API.
	MaxNote = 1024
	// MaxMessage bounds what the status of our kinds says in words, and one of its
	// conditions: what is said of ten clusters, or of many namespaces, may be longer.
	MaxMessage = 4096
)

// Clip cuts s to at most limit bytes, between runes, so that it fits the field
// of a kind whose schema bounds it.
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
