package decision

import "testing"

// The bands of requirements 001, lines 175 to 178.
func TestBands(t *testing.T) {
	for score, want := range map[Score]Band{
		100: Excellent, 90: Excellent, 89.995: Excellent, 89.99: Good, 70: Good, 69.99: Moderate,
		66.67: Moderate, 71.43: Good, 50: Moderate, 49.99: Limited, 0: Limited,
	} {
		if got := score.Band(); got != want {
			t.Errorf("%s is %s, want %s", score, got, want)
		}
	}
}
