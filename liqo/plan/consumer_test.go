package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

var (
	ours   = ObjectView{Exists: true, Ours: true}
	theirs = ObjectView{Exists: true}
	going  = ObjectView{Exists: true, Ours: true, Terminating: true}
)

// consumer returns the view of a placement whose node is ready, after change modified it.
func consumer(change func(*ConsumerView)) ConsumerView {
	v := ConsumerView{
		Provider: "paris", Name: "res-a-1", Namespace: ours,
		Identity:    IdentityView{ObjectView: ours, Ready: true, Fits: true, Renewing: true},
		Slice:       SliceView{ObjectView: ours, Current: true},
		VirtualNode: theirs,
		Node:        NodeView{Exists: true, Ready: true, Opened: true},
		Offloading:  []OffloadingView{offloaded("demo", "paris")},
	}
	change(&v)
	return v
}

// drainedConsumer returns the view of a released placement that has left only its peering.
func drainedConsumer(change func(*ConsumerView)) ConsumerView {
	return consumer(func(v *ConsumerView) {
		v.Release = true
		v.Slice, v.VirtualNode, v.Node, v.Offloading = SliceView{}, ObjectView{}, NodeView{}, nil
		v.Home = HomeView{Namespace: ours, ForeignCluster: true}
		change(v)
	})
}

func verbs(actions []Action) (done []Verb) {
	for _, a := range actions {
		done = append(done, a.Do)
	}
	return done
}

func TestConsumerHoldsAPlacement(t *testing.T) {
	noIdentity := func(v *ConsumerView) { v.Identity = IdentityView{}; v.Slice = SliceView{}; v.Node = NodeView{} }
	tests := map[string]struct {
		change func(*ConsumerView)
		want   []Verb
		phase  agentv1alpha1.InstructionPhase
	}{
		"the namespace is offloaded before anything else is there": {
			change: func(v *ConsumerView) {
				noIdentity(v)
				v.Namespace, v.Offloading[0] = ObjectView{}, OffloadingView{Name: "demo", NamespaceExists: true, Wanted: wanted("paris")}
			},
			want: []Verb{WriteOffloading, EnsureNamespace}, phase: agentv1alpha1.InstructionPeering,
		},
		"without a word from the provider it asks": {
			change: noIdentity, want: []Verb{AskCredentials}, phase: agentv1alpha1.InstructionPeering,
		},
		"a challenge is answered": {
			change: func(v *ConsumerView) { noIdentity(v); v.Handshake.Challenged = true },
			want:   []Verb{SendAnswer}, phase: agentv1alpha1.InstructionPeering,
		},
		"a challenge is answered though the identity works": {
			change: func(v *ConsumerView) { v.Handshake.Challenged = true },
			want:   []Verb{SendAnswer, StopAsking}, phase: agentv1alpha1.InstructionActive,
		},
		"credentials become the identity": {
			change: func(v *ConsumerView) { noIdentity(v); v.Handshake.Challenged, v.Handshake.Credentials = true, true },
			want:   []Verb{SendAnswer, WriteIdentity}, phase: agentv1alpha1.InstructionPeering,
		},
		"credentials that are applied wait for Liqo": {
			change: func(v *ConsumerView) {
				noIdentity(v)
				v.Identity = IdentityView{ObjectView: ours, Fits: true}
				v.Handshake.Credentials, v.Handshake.Applied = true, true
			},
			phase: agentv1alpha1.InstructionPeering,
		},
		"an identity for an earlier key of this cluster is replaced": {
			change: func(v *ConsumerView) {
				noIdentity(v)
				v.Identity = IdentityView{ObjectView: ours, Ready: true}
				v.Handshake.Credentials = true
			},
			want: []Verb{WriteIdentity}, phase: agentv1alpha1.InstructionPeering,
		},
		"an identity that Liqo did not renew in time is used, and another asked for": {
			change: func(v *ConsumerView) { v.Identity.Due = true },
			want:   []Verb{AskCredentials}, phase: agentv1alpha1.InstructionActive,
		},
		"a later certificate takes its place": {
			change: func(v *ConsumerView) { v.Identity.Due, v.Handshake.Credentials = true, true },
			want:   []Verb{WriteIdentity}, phase: agentv1alpha1.InstructionPeering,
		},
		"an identity that has expired is asked for again": {
			change: func(v *ConsumerView) { v.Identity.Due, v.Identity.Expired = true, true },
			want:   []Verb{AskCredentials}, phase: agentv1alpha1.InstructionPeering,
		},
		"so it is while the provider sends the expired one": {
			change: func(v *ConsumerView) {
				v.Identity.Due, v.Identity.Expired = true, true
				v.Handshake.Credentials, v.Handshake.Applied = true, true
			},
			want: []Verb{AskCredentials}, phase: agentv1alpha1.InstructionPeering,
		},
		"one that a person made is renewed by whoever made it": {
			change: func(v *ConsumerView) { v.Identity.Ours, v.Identity.Due = false, true },
			phase:  agentv1alpha1.InstructionActive,
		},
		"an identity that a person made is used": {
			change: func(v *ConsumerView) { v.Identity.Ours = false; v.Slice = SliceView{}; v.Node = NodeView{} },
			want:   []Verb{StopAsking, WriteSlice}, phase: agentv1alpha1.InstructionAwaitingNode,
		},
		"an identity that a person made and that does not work is left alone": {
			change: func(v *ConsumerView) {
				noIdentity(v)
				v.Identity = IdentityView{ObjectView: theirs, Ready: true}
				v.Handshake.Credentials = true
			},
			phase: agentv1alpha1.InstructionPeering,
		},
		"a peering that is going is waited for": {
			change: func(v *ConsumerView) { noIdentity(v); v.Namespace = going; v.Handshake.Challenged = true },
			phase:  agentv1alpha1.InstructionPeering,
		},
		"an identity makes the slice": {
			change: func(v *ConsumerView) { v.Slice = SliceView{}; v.Node = NodeView{} },
			want:   []Verb{StopAsking, WriteSlice}, phase: agentv1alpha1.InstructionAwaitingNode,
		},
		"a slice that asks for something else is changed": {
			change: func(v *ConsumerView) { v.Slice.Current = false },
			want:   []Verb{StopAsking, WriteSlice}, phase: agentv1alpha1.InstructionActive,
		},
		"a slice of this name that a person made is left alone": {
			change: func(v *ConsumerView) { v.Slice = SliceView{ObjectView: theirs} },
			want:   []Verb{StopAsking}, phase: agentv1alpha1.InstructionAwaitingNode,
		},
		"a slice that is going is waited for": {
			change: func(v *ConsumerView) { v.Slice = SliceView{ObjectView: going}; v.Node = NodeView{} },
			want:   []Verb{StopAsking}, phase: agentv1alpha1.InstructionAwaitingNode,
		},
		"with a ready node there is nothing to do": {
			change: func(*ConsumerView) {}, want: []Verb{StopAsking}, phase: agentv1alpha1.InstructionActive,
		},
		"a node that is not ready is awaited": {
			change: func(v *ConsumerView) { v.Node.Ready = false }, want: []Verb{StopAsking}, phase: agentv1alpha1.InstructionAwaitingNode,
		},
		"a new node to which no pod can go yet is awaited": {
			change: func(v *ConsumerView) { v.Node.Tainted = true }, want: []Verb{StopAsking}, phase: agentv1alpha1.InstructionAwaitingNode,
		},
		"a node that was ready before keeps its placement active": {
			change: func(v *ConsumerView) { v.Node.Tainted, v.Health.Delivered = true, true }, want: []Verb{StopAsking}, phase: agentv1alpha1.InstructionActive,
		},
		"another provider of the namespace is added": {
			change: func(v *ConsumerView) { v.Offloading[0].Wanted = wanted("berlin", "paris") },
			want:   []Verb{WriteOffloading, StopAsking}, phase: agentv1alpha1.InstructionActive,
		},
		"an offloading that a person made is left alone": {
			change: func(v *ConsumerView) { v.Offloading[0].ObjectView, v.Offloading[0].Selected = theirs, nil },
			want:   []Verb{StopAsking}, phase: agentv1alpha1.InstructionActive,
		},
		"a namespace that does not exist is waited for": {
			change: func(v *ConsumerView) { v.Offloading[0] = OffloadingView{Name: "demo", Wanted: wanted("paris")} },
			want:   []Verb{StopAsking}, phase: agentv1alpha1.InstructionActive,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForConsumer(consumer(test.change))
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Phase != test.phase || state.Gone || state.Done {
				t.Errorf("state: got %+v, want phase %q", state, test.phase)
			}
		})
	}
}

func TestConsumerTakesAPlacementDown(t *testing.T) {
	released := func(change func(*ConsumerView)) ConsumerView {
		return consumer(func(v *ConsumerView) { v.Release = true; change(v) })
	}
	tests := map[string]struct {
		view       ConsumerView
		want       []Action
		gone, done bool
	}{
		"the node is drained first": {
			view: released(func(*ConsumerView) {}), want: []Action{{Do: BeginDrain}, {Do: CordonNode}},
		},
		"the slice goes once nobody is left on the node": {
			view: released(func(v *ConsumerView) { v.Node.Cordoned, v.Drain.Begun = true, drainBegan }), want: []Action{{Do: DeleteSlice}},
		},
		"a slice without a node has nothing to drain": {
			view: released(func(v *ConsumerView) { v.Node = NodeView{} }), want: []Action{{Do: DeleteSlice}},
		},
		"the virtual node is waited for": {
			view: released(func(v *ConsumerView) { v.Slice = SliceView{} }),
		},
		"the node is waited for after its virtual node": {
			view: released(func(v *ConsumerView) { v.Slice, v.VirtualNode = SliceView{}, ObjectView{} }),
		},
		"then the namespaces stop being offloaded": {
			view: drainedConsumer(func(v *ConsumerView) {
				v.Offloading = []OffloadingView{{Name: "demo", NamespaceExists: true, ObjectView: ours, Selected: []string{"paris"}}}
			}),
			want: []Action{{Do: DeleteOffloading, Namespace: "demo"}},
		},
		"another provider of a namespace keeps it": {
			view: drainedConsumer(func(v *ConsumerView) {
				v.Offloading = []OffloadingView{{Name: "demo", NamespaceExists: true, ObjectView: ours, InForce: both, Wanted: wanted("berlin"), Selected: []string{"berlin", "paris"}}}
			}),
			want: []Action{{Do: WriteOffloading, Namespace: "demo", Agreement: wanted("berlin")}},
		},
		"an offloading that a person made stays": {
			view: drainedConsumer(func(v *ConsumerView) {
				v.Siblings = 1
				v.Offloading = []OffloadingView{{Name: "demo", NamespaceExists: true, ObjectView: theirs}}
			}),
			gone: true, done: true,
		},
		"remote namespaces that are going are waited for": {
			view: drainedConsumer(func(v *ConsumerView) {
				v.Offloading = []OffloadingView{{Name: "demo", NamespaceExists: true, ObjectView: going}}
			}),
		},
		"with another placement at the provider the peering stays": {
			view: drainedConsumer(func(v *ConsumerView) { v.Siblings = 1 }), gone: true, done: true,
		},
		"the last placement takes the identity down": {
			view: drainedConsumer(func(*ConsumerView) {}), want: []Action{{Do: DeleteIdentity}},
		},
		"the identity is waited for": {
			view: drainedConsumer(func(v *ConsumerView) { v.Identity.ObjectView = going }),
		},
		"what renews it is waited for": {
			view: drainedConsumer(func(v *ConsumerView) { v.Identity.ObjectView = ObjectView{} }),
		},
		"then the provider is not needed and the namespace goes": {
			view: drainedConsumer(func(v *ConsumerView) { v.Identity = IdentityView{} }),
			want: []Action{{Do: DeleteNamespace}}, gone: true,
		},
		"an identity that a person made stays, with everything around it": {
			view: drainedConsumer(func(v *ConsumerView) { v.Identity.Ours = false; v.Home.Roots = 1 }),
			gone: true, done: true,
		},
		"a slice of this name that a person made holds nothing up": {
			view: consumer(func(v *ConsumerView) {
				v.Release, v.Siblings, v.Offloading = true, 1, nil
				v.Slice = SliceView{ObjectView: theirs}
			}),
			gone: true, done: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForConsumer(test.view)
			if diff := cmp.Diff(test.want, actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Gone != test.gone || state.Done != test.done {
				t.Errorf("gone, done: got %v, %v, want %v, %v", state.Gone, state.Done, test.gone, test.done)
			}
			if released := state.Phase == agentv1alpha1.InstructionReleased; released != test.done {
				t.Errorf("phase: got %q with done %v", state.Phase, test.done)
			}
		})
	}
}

func TestHomeIsKeptWhileNeeded(t *testing.T) {
	empty := HomeView{Namespace: ours, ForeignCluster: true}
	tests := map[string]struct {
		change func(*HomeView)
		want   []Verb
		done   bool
	}{
		"nobody needs it":                        {change: func(*HomeView) {}, want: []Verb{DeleteNamespace}},
		"another instruction needs it":           {change: func(h *HomeView) { h.Needed = true }, done: true},
		"a person's peering is in it":            {change: func(h *HomeView) { h.Roots = 1 }, done: true},
		"a person made it":                       {change: func(h *HomeView) { h.Namespace.Ours = false }, done: true},
		"Liqo still removes what it derived":     {change: func(h *HomeView) { h.Dependents = 1 }},
		"Liqo forgot the namespace map":          {change: func(h *HomeView) { h.Dependents, h.StrayMap = 1, true }, want: []Verb{DeleteNamespaceMap}},
		"it is going":                            {change: func(h *HomeView) { h.Namespace.Terminating = true }},
		"it is gone and the summary is left":     {change: func(h *HomeView) { h.Namespace = ObjectView{} }, want: []Verb{DeleteForeignCluster}},
		"the summary of a person's peering":      {change: func(h *HomeView) { h.Namespace, h.Roots = ObjectView{}, 2 }, done: true},
		"nothing is left":                        {change: func(h *HomeView) { *h = HomeView{} }, done: true},
		"a stray map in a namespace that is not": {change: func(h *HomeView) { *h = HomeView{StrayMap: true} }, done: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			home := empty
			test.change(&home)
			actions, done := planHome(home)
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" || done != test.done {
				t.Errorf("done %v, want %v; actions (-want +got):\n%s", done, test.done, diff)
			}
		})
	}
}
