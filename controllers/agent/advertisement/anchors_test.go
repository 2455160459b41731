package advertisement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func anchorAt(position int) v1.Anchor {
	return v1.Anchor{Journal: "j", Position: int64(position), Hash: fmt.Sprintf("%064d", position)}
}

// An audit needs a recent anchor, and old ones back to the beginning of what the journal keeps.
func TestAnchorsCoverADayAndTheLastMinutes(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var kept []agentv1alpha1.JournalAnchor
	writes := 0
	for minute := range 3 * 24 * 60 {
		now := start.Add(time.Duration(minute) * time.Minute)
		after := keepAnchor(kept, anchorAt(minute+1), now)
		if len(after) == 0 || now.Sub(after[0].At.Time) >= anchorEvery {
			t.Fatalf("after %d minutes the newest is %+v", minute, after)
		}
		if len(kept) == 0 || kept[0] != after[0] {
			writes++
		}
		if kept = after; len(kept) > 12 {
			t.Fatalf("%d anchors are kept", len(kept))
		}
		if oldest := kept[len(kept)-1]; minute > 25*60 && now.Sub(oldest.At.Time) < 24*time.Hour {
			t.Fatalf("after %d minutes the oldest is of %s", minute, oldest.At)
		}
	}
	if writes > 3*24*6 {
		t.Errorf("%d writes in three days", writes)
	}
}

func TestUselessAnchorsAreNotKept(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	kept := keepAnchor(nil, anchorAt(7), now)
	later := now.Add(time.Hour)
	for name, told := range map[string]v1.Anchor{
		"none": {}, "one without a hash": {Journal: "j", Position: 8}, "the same": anchorAt(7),
		"a long one": {Journal: strings.Repeat("j", 65), Position: 8, Hash: strings.Repeat("0", 64)},
	} {
		if got := keepAnchor(kept, told, later); len(got) != 1 || got[0] != kept[0] {
			t.Errorf("%s: %+v", name, got)
		}
	}
	other := anchorAt(1)
	other.Journal = "another"
	if got := keepAnchor(kept, other, now.Add(time.Second)); got[0].Journal != "another" {
		t.Errorf("a journal that was begun anew is kept at once: %+v", got)
	}
}
