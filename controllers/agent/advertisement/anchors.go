package advertisement

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	// anchorEvery is the shortest time between two new anchors of the same journal. Each anchor
	// costs a write to the API server. An anchor is a position in the broker's journal with the hash
	// of the journal up to there. Kept outside the broker, anchors reveal that a journal was changed
	// later.
	anchorEvery = 10 * time.Minute
	// anchorGap is the shortest time between two kept anchors, except for the newest one. Old
	// anchors show that the beginning of a journal was not replaced by a forged checkpoint.
	anchorGap = 3 * time.Hour
	// anchorAge is how long anchors are kept: a little longer than the broker keeps its journal by
	// default.
	anchorAge = 27 * time.Hour
	// maxAnchorText limits the length of the fields Journal and Hash, as the CRD does.
	maxAnchorText = 64
)

// keepAnchor returns the anchors to keep, newest first, after the broker has sent another one. It
// returns kept unchanged if the new anchor is invalid, or if the newest anchor is of the same
// journal and is younger than anchorEvery or has the same hash.
func keepAnchor(kept []agentv1alpha1.JournalAnchor, told v1.Anchor, now time.Time) []agentv1alpha1.JournalAnchor {
	invalid := told.Position <= 0 || told.Journal == "" || len(told.Journal) > maxAnchorText || len(told.Hash) != maxAnchorText
	if invalid || len(kept) > 0 && now.Sub(kept[0].At.Time) < anchorEvery && kept[0].Journal == told.Journal {
		return kept
	}
	if len(kept) > 0 && kept[0].Journal == told.Journal && kept[0].Hash == told.Hash {
		return kept // nothing was recorded since
	}
	newest := agentv1alpha1.JournalAnchor{Journal: told.Journal, Position: told.Position, Hash: told.Hash, At: metav1.NewTime(now.Truncate(time.Second))}
	// The former newest anchor stays only if it is at least anchorGap younger than the one before
	// it.
	out := []agentv1alpha1.JournalAnchor{}
	for _, a := range slices.Backward(kept) {
		if now.Sub(a.At.Time) < anchorAge && (len(out) == 0 || a.At.Sub(out[0].At.Time) >= anchorGap) {
			out = slices.Insert(out, 0, a)
		}
	}
	return slices.Insert(out, 0, newest)
}
