package decision

import "math"

// Band is a score in one word, for people.
type Band string

// Bands of scores. Each begins at the given score and ends below the previous band.
const (
	Excellent Band = "Excellent" // 90.00
	Good      Band = "Good"      // 70.00
	Moderate  Band = "Moderate"  // 50.00
	Limited   Band = "Limited"   // 0.00
)

// Band returns the band of the score as displayed: 89.996 is displayed as 90.00, which is
// Excellent.
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
