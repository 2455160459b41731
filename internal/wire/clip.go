package wire

import "unicode/utf8"

// MaxNote bounds the note of an event in the API.
const MaxNote = 1024

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
