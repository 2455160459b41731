package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConsumerGivesUpWhatItCannotTakeDown(t *testing.T) {
	silent, givenUp := ReachView{Known: true}, ReachView{Known: true, GivenUp: true, ByAgent: true}
	answers := ReachView{Known: true, Answers: true}
	hanging := func(change func(*ConsumerView)) ConsumerView {
		return consumer(func(v *ConsumerView) {
			v.Release, v.Overdue, v.Slice.ObjectView = true, true, going
			change(v)
		})
	}
	tests := map[string]struct {
		view ConsumerView
		want []Verb
	}{
		"a provider has its time": {
			view: hanging(func(v *ConsumerView) { v.Reach, v.Overdue = silent, false }),
		},
		"then it is given up": {
			view: hanging(func(v *ConsumerView) { v.Reach = silent }), want: []Verb{GiveUpProvider},
		},
		"also while its node is drained": {
			view: hanging(func(v *ConsumerView) { v.Reach, v.Slice.ObjectView = silent, ours }),
			want: []Verb{BeginDrain, CordonNode, GiveUpProvider},
		},
		"not while a placement there stands": {
			view: hanging(func(v *ConsumerView) { v.Reach, v.Standing = silent, 1 }),
		},
		"what hangs is looked at again": {
			view: hanging(func(v *ConsumerView) { v.Reach = givenUp }), want: []Verb{NudgeSlice},
		},
		"once": {
			view: hanging(func(v *ConsumerView) { v.Reach = givenUp; v.Slice.Nudged = true }),
		},
		"also of a provider that a person gave up": {
			view: hanging(func(v *ConsumerView) { v.Reach, v.Overdue = ReachView{Known: true, GivenUp: true}, false }),
			want: []Verb{NudgeSlice},
		},
		"nobody confirms the end of its pods": {
			view: hanging(func(v *ConsumerView) { v.Reach = givenUp; v.Slice = SliceView{} }), want: []Verb{EndPods},
		},
		"a provider that answers and does not let its replica be deleted keeps it": {
			view: hanging(func(v *ConsumerView) { v.Reach = answers }), want: []Verb{PartIdentity},
		},
		"once, too": {
			view: hanging(func(v *ConsumerView) { v.Reach = answers; v.Identity.Parted = true }),
		},
		"an identity that a person made is left": {
			view: hanging(func(v *ConsumerView) { v.Reach = answers; v.Identity.Ours = false }),
		},
		"pods that are drained slowly are waited for": {
			view: hanging(func(v *ConsumerView) { v.Reach = answers; v.Slice = SliceView{} }),
		},
		"an identity that is deleted late is turned away before": {
			view: drainedConsumer(func(v *ConsumerView) { v.Reach, v.Overdue = answers, true }), want: []Verb{PartIdentity},
		},
		"until Liqo has seen that": {
			view: drainedConsumer(func(v *ConsumerView) { v.Reach, v.Overdue, v.Identity.Parted = answers, true, true }),
		},
		"then it goes": {
			view: drainedConsumer(func(v *ConsumerView) {
				v.Reach, v.Overdue, v.Identity.Parted, v.Identity.ActedOn = answers, true, true, true
			}),
			want: []Verb{DeleteIdentity},
		},
		"a new placement takes the giving up back": {
			view: consumer(func(v *ConsumerView) { v.Reach = givenUp }), want: []Verb{StopAsking, TakeBackGivingUp},
		},
		"not that of a person": {
			view: consumer(func(v *ConsumerView) { v.Reach = ReachView{GivenUp: true} }), want: []Verb{StopAsking},
		},
		"and asks for an identity that works": {
			view: consumer(func(v *ConsumerView) { v.Identity.Parted = true }), want: []Verb{AskCredentials},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForConsumer(test.view)
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if said := strings.Contains(state.NodeReady.Message, "does not answer"); said != (test.view.Release && !test.view.Reach.Answers && !test.view.Reach.GivenUp) {
				t.Errorf("says %q", state.NodeReady.Message)
			}
		})
	}
}
