package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// Message is the text about a group of events.
type Message struct {
	// ID identifies the message. It is the same whenever the message is delivered again.
	ID string
	// Title is one line; Lines are the events, oldest first.
	Title string
	Lines []string
	// Footer names the channel of the message, and the events that the message contains.
	Footer string
}

const (
	// maxTitle and maxLine are the largest lengths of a title and of a line in bytes.
	maxTitle = 200
	maxLine  = 600
	// maxLines is the largest number of lines of a message.
	maxLines = 40
	// maxSingle is the largest number of similar events that get a line each. If there are more, they share one line.
	maxSingle = 3
)

// Compose returns the message about some events, which must not be empty. Among events with the same stateKey, it
// contains only the newest. If more than three events have the same type and provider, they share a line, for example
// "17 reservations moved from oslo: ...".
func Compose(channel, journalID string, events []Event) Message {
	first, last := &events[0], &events[len(events)-1]
	m := Message{ID: first.ID(journalID) + "_" + last.ID(journalID)}
	m.Footer = fmt.Sprintf("liqo-resource-broker, channel %s, events %s to %s", channel, first.ID(journalID), last.ID(journalID))
	groups := groupSimilar(dropRepeated(events))
	for i, group := range groups {
		if i == maxLines-1 && len(groups) > maxLines {
			m.Lines = append(m.Lines, fmt.Sprintf("and %d more", len(groups)-i))
			break
		}
		newest := group[len(group)-1].Data.Time.UTC().Format(time.RFC3339)
		m.Lines = append(m.Lines, message.Clip(newest+" "+cleanText(textOf(group)), maxLine))
	}
	m.Title = message.Clip(cleanText(textOf(groups[0])), maxTitle)
	if len(groups) > 1 {
		m.Title = message.Clip(m.Title, maxTitle-30) + fmt.Sprintf(" (and %d more)", len(groups)-1)
	}
	return m
}

// dropRepeated removes each event that is followed by a later event with the same stateKey.
func dropRepeated(events []Event) []Event {
	newest := map[[5]string]int{}
	for i := range events {
		newest[events[i].stateKey()] = i
	}
	var out []Event
	for i := range events {
		if newest[events[i].stateKey()] == i {
			out = append(out, events[i])
		}
	}
	return out
}

// groupSimilar divides events into groups. If more than maxSingle events are similar, they are one group. Every other
// event is a group of its own. The groups are in the order of their first events.
func groupSimilar(events []Event) [][]Event {
	similar := map[[2]string]int{}
	for i := range events {
		similar[events[i].similarityKey()]++
	}
	var out [][]Event
	at := map[[2]string]int{}
	for i := range events {
		kin := events[i].similarityKey()
		known, exists := at[kin]
		switch {
		case similar[kin] <= maxSingle:
			out = append(out, events[i:i+1])
		case exists:
			out[known] = append(out[known], events[i])
		default:
			at[kin] = len(out)
			out = append(out, []Event{events[i]})
		}
	}
	return out
}

// similarityKey returns the key by which events count as similar: the type, and the provider that most likely caused
// them.
func (e *Event) similarityKey() [2]string {
	return [2]string{string(e.Type), cmp.Or(e.Data.From, e.Data.Provider)}
}

// digests are the texts for lines about several similar events: a noun with a verb, and the preposition before the
// provider.
var digests = map[Type][2]string{
	Queued: {"reservations wait for capacity", ""}, Granted: {"reservations are granted", "on"}, Active: {"reservations are ready for use", "on"},
	NotReady: {"reservations cannot be used now", "on"}, Moved: {"reservations moved", "from"}, Changed: {"reservations have changed", "on"},
	ChangeRefused: {"changes of reservations are refused", "on"}, PreemptionNotice: {"reservations must make room", "on"},
	RecallNotice: {"reservations are called back", "from"}, Idle: {"reservations are idle", "on"}, NoticeWithdrawn: {"reservations may stay", "on"}, Ending: {"reservations end", "on"},
	Failed: {"reservations have failed", ""}, Ended: {"reservations are over", ""},
	ClusterJoined: {"clusters take part", ""}, ClusterSilent: {"clusters are silent", ""}, ClusterBack: {"clusters are back", ""},
	ClusterLost: {"clusters were removed", ""}, ConfigChanged: {"changes of the BrokerConfig", ""}, JournalRestored: {"restorations of the journal", ""},
}

func textOf(group []Event) string {
	if len(group) == 1 {
		return group[0].Data.Message
	}
	e, about := &group[0], digests[group[0].Type]
	text := fmt.Sprintf("%d %s", len(group), about[0])
	if provider := e.similarityKey()[1]; provider != "" && about[1] != "" {
		text += " " + about[1] + " " + provider
	}
	var names []string
	for i := range group[:maxSingle] {
		names = append(names, group[i].Subject)
	}
	return fmt.Sprintf("%s: %s and %d more", text, strings.Join(names, ", "), len(group)-maxSingle)
}

// cleanText replaces line breaks, control characters and characters that change the direction of text, because members
// can set parts of the text.
func cleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, text)
}

// Text returns the message as plain text.
func (m *Message) Text() string {
	return strings.Join(m.Lines, "\n") + "\n\n" + m.Footer + "\n"
}

// slackEscapes replaces the characters that Slack interprets, and interrupts what compatible chats take for a mention or
// a link with a space of no width.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "://", ":\u200b//", "](", "]\u200b(")

// Slack returns the message as JSON for an incoming webhook of Slack, or of a chat with a compatible webhook.
func (m *Message) Slack() ([]byte, error) {
	return json.Marshal(struct {
		Text     string `json:"text"`
		Markdown bool   `json:"mrkdwn"`
	}{slackEscapes.Replace(m.Text()), false})
}
