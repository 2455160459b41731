package liqo

import (
	"testing"
	"testing/synctest"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestConsumerPartsFromUnhelpfulProvider(t *testing.T) {
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
