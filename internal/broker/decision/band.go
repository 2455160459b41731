package decision

import "math"

// Band is a word for a range of scores, for display.
type Band string

// The bands of scores. Each one begins at the score in its comment and ends below the band above.
const (
	Excellent Band = "Excellent" // 90.00
	Good      Band = "Good"      // 70.00
	Moderate  Band = "Moderate"  // 50.00
	Limited   Band = "Limited"   // 0.00
)

// Band returns the band of the score as it is displayed, with two decimals: 89.996 is displayed as
// 90.00, which is Excellent.
func (s Score) Band() Band {
	switch shown := math.Round(float64(s) * 100); {
	case shown >= 9000:
		return Excellent
	case shown >= 7000:
		return Good
	case shown >= 5000:
		return Moderate
	default:
		return Limited
	}
}
