package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProviderTakesWhatIsNotGivenBack(t *testing.T) {
	inUse := func(v *ProviderView) {
		v.Release, v.Quota, v.ShadowPods, v.Replica = true, true, 2, ReplicaView{Exists: true, Granted: true}
	}
	last := func(v *ProviderView) { v.Release, v.Reclaim, v.Replicated = true, true, 1 }
	tests := map[string]struct {
		change func(*ProviderView)
		want   []Verb
		gone   bool
	}{
		"a consumer has its time": {change: inUse},
		"then pods and slice are taken": {
			change: func(v *ProviderView) { inUse(v); v.Reclaim = true },
			want:   []Verb{CordonSlice, DeletePods, DeleteReplica},
		},
		"pods that take long to end are waited for": {
			change: func(v *ProviderView) { v.Release, v.Reclaim, v.Pods = true, true, 1 },
		},
		"they are waited for where the consumer gave back in time, too": {
			change: func(v *ProviderView) { v.Release, v.Unpeer, v.Pods = true, true, 1 },
		},
		"a replica that the consumer makes anew holds nothing": {
			change: func(v *ProviderView) { last(v); v.Replica.Exists, v.Siblings = true, 1 },
			gone:   true,
		},
		"with the last the consumer's rights go": {
			change: last, want: []Verb{ForgetConsumer, DrainTenant}, gone: true,
		},
		"then its replicas": {
			change: func(v *ProviderView) { last(v); v.Tenant.Drained = true },
			want:   []Verb{ForgetConsumer, DeleteReplicas}, gone: true,
		},
		"then the Tenant": {
			change: func(v *ProviderView) { last(v); v.Tenant.Drained, v.Replicated = true, 0 },
			want:   []Verb{ForgetConsumer, DeleteTenant}, gone: true,
		},
		"a Tenant that somebody deleted before leaves replicas, which go too": {
			change: func(v *ProviderView) { last(v); v.Tenant = TenantView{} },
			want:   []Verb{ForgetConsumer, DeleteReplicas}, gone: true,
		},
		"a person's Tenant is left": {
			change: func(v *ProviderView) { last(v); v.Tenant.ObjectView = theirs; v.Home.Roots = 1 },
			want:   []Verb{ForgetConsumer}, gone: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForProvider(provider(test.change))
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Gone != test.gone {
				t.Errorf("gone is %v, want %v: %s", state.Gone, test.gone, state.Granted.Message)
			}
		})
	}
}

func TestTenantIsRestoredUnlessDrainedByHand(t *testing.T) {
	for name, test := range map[string]struct {
		tenant TenantView
		want   []Verb
	}{
		"reclaimed":         {TenantView{ObjectView: ours, Ready: true, Drained: true, Reclaimed: true}, []Verb{RestoreTenant}},
		"drained by person": {TenantView{ObjectView: ours, Ready: true, Drained: true}, nil},
		"a person's":        {TenantView{ObjectView: theirs, Ready: true, Drained: true, Reclaimed: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			actions, state := ForProvider(provider(func(v *ProviderView) { v.Tenant = test.tenant }))
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Granted.Message == "" {
				t.Error("the state does not say what to do")
			}
		})
	}
}
