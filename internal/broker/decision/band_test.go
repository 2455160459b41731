package decision

import "testing"

// The lowest scores of the bands are 90, 70 and 50. A score counts as displayed, with two decimals,
// so 89.995 is Excellent.
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
