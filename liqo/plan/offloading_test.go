package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

var (
	both     = Strategy{Pods: offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType}.WithDefaults()
	remote   = Strategy{Pods: offloadingv1beta1.RemotePodOffloadingStrategyType}.WithDefaults()
	local    = Strategy{}.WithDefaults()
	sameName = Strategy{Names: offloadingv1beta1.EnforceSameNameMappingStrategyType}.WithDefaults()
)

// wanted returns an agreement to offload with the strategy LocalAndRemote to these providers.
func wanted(providers ...string) Agreement {
	return Agreement{Strategy: both, By: `request "demo/first"`, Providers: providers}
}

// offloaded returns the view of a namespace that Liqo reports as ready at the providers.
func offloaded(name string, providers ...string) OffloadingView {
	return OffloadingView{
		Name: name, NamespaceExists: true, Labelled: true, ObjectView: ours,
		Wish: both, Wanted: wanted(providers...), InForce: both, Selected: providers, Required: true, Ready: true,
	}
}

func TestRequestsAgreeOnAStrategy(t *testing.T) {
	claimOf := func(name, provider string, s Strategy) Claim {
		return Claim{Request: name, Provider: provider, Strategy: s}
	}
	tests := map[string]struct {
		inForce Strategy
		claims  []Claim
		want    Agreement
	}{
		"nobody wants anything": {inForce: both},
		"all want the same": {
			claims: []Claim{claimOf("a", "paris", both), claimOf("b", "berlin", both), claimOf("c", "paris", both)},
			want:   Agreement{Strategy: both, By: "a", Providers: []string{"berlin", "paris"}},
		},
		"the oldest is heeded, and its provider alone": {
			claims: []Claim{claimOf("a", "paris", remote), claimOf("b", "berlin", both)},
			want:   Agreement{Strategy: remote, By: "a", Providers: []string{"paris"}},
		},
		"what is in force stays, whoever is older": {
			inForce: both,
			claims:  []Claim{claimOf("a", "paris", remote), claimOf("b", "berlin", both), claimOf("c", "rome", both)},
			want:    Agreement{Strategy: both, By: "b", Providers: []string{"berlin", "rome"}},
		},
		"what nobody wants any more is left": {
			inForce: sameName,
			claims:  []Claim{claimOf("a", "paris", remote)},
			want:    Agreement{Strategy: remote, By: "a", Providers: []string{"paris"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Agree(test.inForce, test.claims)); diff != "" {
				t.Errorf("agreement (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsLeavePodsThatDoNotSelectThemInTheCluster(t *testing.T) {
	enforced := &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceEnforce}
	for name, tt := range map[string]struct {
		offloading *agentv1alpha1.Offloading
		want       Strategy
	}{
		"by default":                             {nil, local},
		"with other fields set":                  {&agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceNone}, local},
		"unless all pods are to go":              {&agentv1alpha1.Offloading{PodOffloadingStrategy: agentv1alpha1.PodOffloadingRemote}, remote},
		"unless all pods may go":                 {&agentv1alpha1.Offloading{PodOffloadingStrategy: agentv1alpha1.PodOffloadingLocalAndRemote}, both},
		"unless all pods are pinned":             {enforced, both},
		"unless all pods are pinned, and may go": {&agentv1alpha1.Offloading{PodOffloadingStrategy: agentv1alpha1.PodOffloadingRemote, PodCompliance: agentv1alpha1.PodComplianceEnforce}, remote},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WishOf(tt.offloading).WithDefaults(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAgreementDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategies := rapid.SampledFrom([]Strategy{both, remote, local, sameName})
		draw := rapid.Custom(func(t *rapid.T) Claim {
			return Claim{Provider: rapid.SampledFrom([]string{"paris", "berlin", "oslo"}).Draw(t, "provider"), Strategy: strategies.Draw(t, "strategy")}
		})
		claims := rapid.SliceOfN(draw, 1, 6).Draw(t, "claims")
		first := Agree(strategies.Draw(t, "in force"), claims)
		if len(first.Providers) == 0 {
			t.Fatalf("claims %+v: nobody is served", claims)
		}
		if again := Agree(first.Strategy, claims); !cmp.Equal(first, again) {
			t.Fatalf("claims %+v: agreed on %+v, and then on %+v", claims, first, again)
		}
		// A later claim does not change the agreement of the earlier ones.
		more := Agree(first.Strategy, append(slices.Clip(claims), draw.Draw(t, "later")))
		if more.Strategy != first.Strategy {
			t.Fatalf("claims %+v: a later one changed %s to %s", claims, first.Strategy, more.Strategy)
		}
	})
}

func TestOffloadingFollowsTheAgreement(t *testing.T) {
	tests := map[string]struct {
		change func(*OffloadingView)
		want   []Verb
	}{
		"as agreed":                        {change: func(*OffloadingView) {}},
		"another strategy for pods":        {change: func(o *OffloadingView) { o.Wanted.Strategy = remote }, want: []Verb{WriteOffloading}},
		"other names need another object":  {change: func(o *OffloadingView) { o.Wanted.Strategy = sameName }, want: []Verb{DeleteOffloading}},
		"the earlier object is waited for": {change: func(o *OffloadingView) { o.Wanted.Strategy, o.Terminating = sameName, true }},
		"one that a person made is left as it is": {
			change: func(o *OffloadingView) { o.Wanted.Strategy, o.Ours, o.Selected = remote, false, nil },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := offloaded("demo", "paris")
			test.change(&o)
			got := verbs(planOffloading(ConsumerView{Provider: "paris", Offloading: []OffloadingView{o}}))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOffloadingSaysWhatIsInTheWay(t *testing.T) {
	tests := map[string]struct {
		change func(*OffloadingView)
		// want is part of the message; if it is empty, the aspect is true.
		reason, want string
	}{
		"nothing": {change: func(*OffloadingView) {}, reason: agentv1alpha1.ReasonOffloading},
		"the namespace is missing": {
			change: func(o *OffloadingView) { o.NamespaceExists = false },
			reason: agentv1alpha1.ReasonOffloading, want: `namespace "demo" does not exist`,
		},
		"the namespace ends": {
			change: func(o *OffloadingView) { o.NamespaceExists, o.NamespaceEnding = false, true },
			reason: agentv1alpha1.ReasonOffloading, want: `namespace "demo" is being deleted`,
		},
		"the remote namespace of an earlier request still ends": {
			change: func(o *OffloadingView) { o.Terminating = true },
			reason: agentv1alpha1.ReasonOffloading, want: `waiting until Liqo has ended the earlier offloading of namespace "demo"`,
		},
		"Liqo has not chosen the provider yet, though the namespace was there before": {
			change: func(o *OffloadingView) { o.Required = false },
			reason: agentv1alpha1.ReasonOffloading, want: "waiting for Liqo",
		},
		"the provider has no namespace yet": {
			change: func(o *OffloadingView) { o.Ready = false },
			reason: agentv1alpha1.ReasonOffloading, want: "waiting for Liqo",
		},
		"Liqo does not look at pods yet": {
			change: func(o *OffloadingView) { o.Labelled = false },
			reason: agentv1alpha1.ReasonOffloading, want: "waiting for Liqo",
		},
		"Liqo need not look at pods that stay": {
			change: func(o *OffloadingView) {
				o.Wish, o.InForce, o.Wanted.Strategy, o.Labelled = local, local, local, false
			},
			reason: agentv1alpha1.ReasonOffloading,
		},
		"another request was first, with another strategy": {
			change: func(o *OffloadingView) { o.Wish.Pods = remote.Pods },
			reason: agentv1alpha1.ReasonOffloadingConflict, want: `for request "demo/first"`,
		},
		"a person's object is as good": {
			change: func(o *OffloadingView) { o.Ours, o.Wish, o.InForce, o.Selected = false, Strategy{}, remote, nil },
			reason: agentv1alpha1.ReasonOffloading,
		},
		"a person's object leaves all but pinned pods here, as the request does": {
			change: func(o *OffloadingView) { o.Ours, o.Wish, o.InForce, o.Labelled = false, Strategy{}, local, false },
			reason: agentv1alpha1.ReasonOffloading,
		},
		"a person's object does not select the provider": {
			change: func(o *OffloadingView) { o.Ours, o.Required = false, false },
			reason: agentv1alpha1.ReasonProviderExcluded, want: `does not select "paris"`,
		},
		"a person's object keeps pods here": {
			change: func(o *OffloadingView) { o.Ours, o.InForce = false, local },
			reason: agentv1alpha1.ReasonOffloadingConflict, want: "with Local and DefaultName",
		},
		"a person's object has other names than asked for": {
			change: func(o *OffloadingView) { o.Ours, o.Wish = false, sameName },
			reason: agentv1alpha1.ReasonOffloadingConflict, want: "wants Local and EnforceSameName",
		},
		"the namespace may not have its name elsewhere": {
			change: func(o *OffloadingView) { o.Wish, o.Wanted = sameName, Agreement{} },
			reason: agentv1alpha1.ReasonSameNameNotAllowed, want: "kubectl label namespace demo liqo.io/broker-same-name=true",
		},
		"the provider may not let the namespace have its name": {
			change: func(o *OffloadingView) {
				o.Wish, o.InForce, o.Wanted.Strategy, o.SameName, o.Ready = sameName, sameName, sameName, true, false
			},
			reason: agentv1alpha1.ReasonOffloading, want: "guard.sameNames",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fine, o := offloaded("other", "paris"), offloaded("demo", "paris")
			test.change(&o)
			v := ConsumerView{Provider: "paris", VirtualNode: theirs, Offloading: []OffloadingView{fine, o}}
			got := offloadingAspect(v)
			if got.True != (test.want == "") || got.Reason != test.reason || !strings.Contains(got.Message, test.want) {
				t.Errorf("got %+v, want reason %q and a message with %q", got, test.reason, test.want)
			}
		})
	}
}

// An administrator of the broker's cluster does not know which namespaces a member has.
func TestPlacementWithoutNamespacesSaysHowPodsGetThere(t *testing.T) {
	actions, s := ForConsumer(consumer(func(v *ConsumerView) { v.Offloading = nil }))
	if got := s.Offloading; !got.True || !strings.Contains(got.Message, `NamespaceOffloading selects it`) || !strings.Contains(got.Message, `"paris"`) {
		t.Errorf("got %+v", got)
	}
	for _, a := range actions {
		if a.Do == WriteOffloading {
			t.Errorf("it offloads %q", a.Namespace)
		}
	}
}
