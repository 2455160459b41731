package plan

import (
	"fmt"
)

// ReachView is what Liqo knows about its connection to a provider.
type ReachView struct {
	// Known is true while Liqo has a ForeignCluster for the provider; Answers while the
	// provider's API server answered the last check.
	Known, Answers bool
	// GivenUp is true when Liqo was told to stop waiting for the provider; ByAgent when the
	// agent told it.
	GivenUp, ByAgent bool
}

// planLost unblocks a release that hangs because the provider does not answer, or because
// this cluster lost its rights there. In both cases Liqo waits indefinitely.
func planLost(v ConsumerView) (actions []Action) {
	switch {
	case v.Reach.Answers && v.Overdue && v.Slice.Terminating:
		return planParting(v)
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

// planParting changes the remote namespace in this cluster's Identity at the provider. Liqo then
// forgets the objects that it replicated to the provider, and no longer tries to delete them there.
func planParting(v ConsumerView) []Action {
	if v.Identity.IsUsable() && v.Identity.Ours && !v.Identity.Parted {
		return []Action{{Do: PartIdentity}}
	}
	return nil
}

// unreachableNote says why a release takes long, and what happens next.
func (v *ConsumerView) unreachableNote() string {
	switch {
	case !v.Release || !v.Reach.Known || v.Reach.Answers:
		return ""
	case v.Reach.GivenUp:
		return fmt.Sprintf("; %q was given up", v.Provider)
	case v.Standing > 0:
		return fmt.Sprintf("; the API server of %q does not answer; waiting for it, %d placements there are in force", v.Provider, v.Standing)
	}
	return fmt.Sprintf("; the API server of %q does not answer, and is given up after --give-up-timeout", v.Provider)
}
