package lending

import (
	"testing"
	"time"
)

func TestRecallOf(t *testing.T) {
	tests := map[string]struct {
		all  []Recall
		want string
	}{
		"no recall":                          {nil, ""},
		"recall of the consumer":             {[]Recall{{Consumer: "rome", Message: "a"}}, "a"},
		"recall of another consumer":         {[]Recall{{Consumer: "milan", Message: "a"}}, ""},
		"recall of the reservation":          {[]Recall{{Reservation: "res-1", Message: "a"}}, "a"},
		"recall of another reservation":      {[]Recall{{Reservation: "res-2", Message: "a"}}, ""},
		"of everybody":                       {[]Recall{{Everybody: true, Message: "a"}}, "a"},
		"of nobody":                          {[]Recall{{Message: "a"}}, ""},
		"the shortest notice wins":           {[]Recall{{Consumer: "rome", Notice: time.Hour, Message: "a"}, {Reservation: "res-1", Notice: time.Minute, Message: "b"}}, "b"},
		"among equal notices the first wins": {[]Recall{{Everybody: true, Message: "a"}, {Reservation: "res-1", Message: "b"}}, "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if r := RecallOf(test.all, "rome", "res-1"); r != nil {
				got = r.Message
			}
			if got != test.want {
				t.Errorf("got recall %q, want %q", got, test.want)
			}
		})
	}
}
