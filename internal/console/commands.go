package console

import (
	"regexp"
	"strings"
)

// flagValue is a flag of a command with its value. The value is "" if it is not given.
type flagValue struct{ name, value string }

// withFlags returns a command with those of the flags that are given.
func withFlags(command string, flags ...flagValue) string {
	for _, f := range flags {
		if f.value != "" {
			command += " --" + f.name + " " + quoteWord(f.value)
		}
	}
	return command
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._:/=,+][A-Za-z0-9._:/=,+-]*$`)

// quoteWord returns a text as one word of a shell command, because users copy commands from pages into a shell.
func quoteWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
