package plan

import (
	"fmt"
)

// ReachView is what Liqo knows about its connection to a provider.
type ReachView struct {
	// Known is true while Liqo has a ForeignCluster object for the provider. Answers is true if the
	// provider's API server answered Liqo's last check.
	Known, Answers bool
	// GivenUp is true when an annotation tells Liqo to stop waiting for the provider. ByAgent is
	// true when the agent set that annotation.
	GivenUp, ByAgent bool
}

// planLost returns the actions that unblock a hanging release, for which Liqo itself would wait
// indefinitely. Either the provider does not answer, or this cluster lost its rights there.
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

// planParting returns the action that changes the remote namespace in the Identity with which Liqo
// accesses the provider. Liqo then forgets the objects that it replicated to the provider, instead
// of waiting until it can delete them.
func planParting(v ConsumerView) []Action {
	if v.Identity.IsUsable() && v.Identity.Ours && !v.Identity.Parted {
		return []Action{{Do: PartIdentity}}
	}
	return nil
}

// unreachableNote returns a note for messages that says why a release takes long, and what happens
// next. It returns "" if the provider answers.
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
