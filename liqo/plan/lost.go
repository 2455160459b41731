package plan

import (
	"fmt"
)

// ReachView is what Liqo knows of the way to a provider.
type ReachView struct {
	// Known is true while Liqo has a summary of the provider, Answers while the provider's
	// API server answered last.
	Known, Answers bool
	// GivenUp is true when Liqo was told to wait for the provider no more, ByAgent when it
	// was the agent that told it.
	GivenUp, ByAgent bool
}

// planLost ends what hangs on a provider that does not answer, or that this cluster has
// no rights at any more. Liqo waits for both for ever.
func planLost(v ConsumerView) (actions []Action) {
	switch {
	case v.Reach.Answers && v.Overdue && v.Slice.Terminating:
		return planPart(v)
	case v.Reach.Answers:
		return nil
	case v.Reach.Known && v.Overdue && !v.Reach.GivenUp && v.Standing == 0:
		return []Action{{Do: GiveUpProvider}}
	case !v.Reach.GivenUp:
		return nil
	}
	if v.Slice.Terminating && !v.Slice.Nudged {
		actions = append(actions, Action{Do: NudgeSlice})
	}
	if v.Node.Exists && !v.Slice.Exists {
		actions = append(actions, Action{Do: EndPods})
	}
	return actions
}

// planPart turns this cluster's identity away from what it replicated. Liqo forgets then
// what it believes to be at the provider, and may not delete there.
func planPart(v ConsumerView) []Action {
	if v.Identity.IsUsable() && v.Identity.Ours && !v.Identity.Parted {
		return []Action{{Do: PartIdentity}}
	}
	return nil
}

// unreachable says why a release takes long, and what comes of it.
func (v *ConsumerView) unreachable() string {
	switch {
	case !v.Release || !v.Reach.Known || v.Reach.Answers:
		return ""
	case v.Reach.GivenUp:
		return fmt.Sprintf("; %q was given up", v.Provider)
	case v.Standing > 0:
		return fmt.Sprintf("; the API server of %q does not answer, and is waited for: %d placements there stand", v.Provider, v.Standing)
	}
	return fmt.Sprintf("; the API server of %q does not answer, and is given up after --give-up-timeout", v.Provider)
}
