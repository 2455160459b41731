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
		"there is none":                  {nil, ""},
		"of the consumer":                {[]Recall{{Consumer: "rome", Message: "a"}}, "a"},
		"of another consumer":            {[]Recall{{Consumer: "milan", Message: "a"}}, ""},
		"of the reservation":             {[]Recall{{Reservation: "res-1", Message: "a"}}, "a"},
		"of another reservation":         {[]Recall{{Reservation: "res-2", Message: "a"}}, ""},
		"of everybody":                   {[]Recall{{Everybody: true, Message: "a"}}, "a"},
		"of nobody":                      {[]Recall{{Message: "a"}}, ""},
		"the shortest notice counts":     {[]Recall{{Consumer: "rome", Notice: time.Hour, Message: "a"}, {Reservation: "res-1", Notice: time.Minute, Message: "b"}}, "b"},
		"of equals the first one counts": {[]Recall{{Everybody: true, Message: "a"}, {Reservation: "res-1", Message: "b"}}, "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if r := RecallOf(test.all, "rome", "res-1"); r != nil {
				got = r.Message
			}
			if got != test.want {
				t.Errorf("%q counts, want %q", got, test.want)
			}
		})
	}
}
