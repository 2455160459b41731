package liqo

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
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
				v.Reach, v.Overdue, v.Identity.Parted, v.Identity.Settled = answers, true, true, true
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
			actions, state := PlanConsumer(test.view)
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if said := strings.Contains(state.NodeReady.Message, "does not answer"); said != (test.view.Release && !test.view.Reach.Answers && !test.view.Reach.GivenUp) {
				t.Errorf("says %q", state.NodeReady.Message)
			}
		})
	}
}

func TestAConsumerPartsFromAProviderThatDoesNotHelp(t *testing.T) {
	tests := map[string]struct {
		lost func(*world)
		back func(*world)
	}{
		"it is gone": {
			lost: func(w *world) { w.sites["paris"].silent = true; w.cutOff("paris", true) },
			back: func(w *world) { w.sites["paris"].silent = false; w.cutOff("paris", false) },
		},
		"it took this cluster's rights while the way there was cut": {
			lost: func(w *world) {
				w.sites["rome"].silent, w.sites["rome"].cut, w.sites["rome"].stale = true, true, true
				w.setRelease("rome", "paris", "res-a", false)
				w.until("the provider has reclaimed", nil, func() bool { return w.provides("paris", "res-a-1") == nil })
				w.sites["rome"].silent, w.sites["rome"].cut = false, false
			},
			back: func(*world) {},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				test.lost(w)
				if w.provides("paris", "res-a-1") != nil {
					w.setRelease("rome", "paris", "res-a", false)
				}
				w.until("the consumer is done", nil, func() bool {
					return !w.exists("rome", "default", "res-a-1", &agentv1alpha1.ReservationInstruction{})
				})
				if w.exists("rome", "", "paris", &liqov1beta1.ForeignCluster{}) {
					t.Error("the consumer is not clean")
				}
				test.back(w)
				w.until("the provider is done", nil, func() bool { return w.provides("paris", "res-a-1") == nil })
				w.wantEmpty()

				w.reserve("rome", "paris", "res-b")
				w.sites["rome"].stale = false
				w.until("they peer again", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
			})
		})
	}
}
