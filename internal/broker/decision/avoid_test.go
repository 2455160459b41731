package decision

import "testing"

func TestClusterToAvoidIsTheLastResort(t *testing.T) {
	paris, berlin := cluster("paris", 8, 8, 16, 16), cluster("berlin", 2, 4, 8, 16)
	for _, tt := range []struct {
		name    string
		request Request
		// paused is a cluster whose pause makes it the last resort.
		paused string
		want   string
	}{
		{"another one serves, though it has less room", Request{Amounts: size(1, 1), Avoid: []string{paris.ID}}, "", berlin.ID},
		{"if no other has room", Request{Amounts: size(1, 1), Avoid: []string{paris.ID}, Exclude: []string{berlin.ID}}, "", paris.ID},
		{"the better one, if all are to be avoided", Request{Amounts: size(1, 1), Avoid: []string{berlin.ID, paris.ID}}, "", paris.ID},
		{"not if it is excluded, too", Request{Amounts: size(1, 1), Avoid: []string{paris.ID}, Exclude: []string{berlin.ID, paris.ID}}, "", ""},
		{"a pause of days", Request{Amounts: size(1, 1)}, paris.ID, berlin.ID},
		{"a pause of days, and no other has room", Request{Amounts: size(8, 1)}, paris.ID, paris.ID},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := NewMarket()
			for _, c := range []Candidate{paris, berlin} {
				if err := m.Upsert(c); err != nil {
					t.Fatal(err)
				}
			}
			m.SetStanding(tt.paused, &Standing{Paused: Pause{Why: "3 failures in a row", LastResort: true}})
			tt.request.Requester = "rome"
			got, _ := Decide(m, &tt.request)
			explained := ExplainTop(m, &tt.request, 2)
			if got != tt.want || explained.Winner != tt.want {
				t.Errorf("chose %q, explained %q, want %q", got, explained.Winner, tt.want)
			}
		})
	}
}
