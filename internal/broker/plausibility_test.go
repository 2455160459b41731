package broker

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/clusters"
)

func TestFiguresThatCannotBeRightAreDoubted(t *testing.T) {
	cases := map[string]struct {
		first, second func(*v1.Advertisement)
		apart         time.Duration
		// want is part of the doubt's text, "" for no doubt.
		want string
	}{
		"nothing odd": {},
		"more allocated than allocatable": {
			first: func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "20"} },
			want:  "request 20 of cpu, of which 16 are allocatable",
		},
		"more free on nodes than allocatable": {
			first: nodes(v1.NodeShape{Count: 4, Free: v1.Amounts{"cpu": "5", "memory": "1Gi"}}),
			want:  "have 20 of cpu free, of which 16 are allocatable",
		},
		"five times as much at once": {
			second: func(a *v1.Advertisement) { a.Capacity["cpu"], a.Allocatable["cpu"] = "80", "80" },
			want:   "allocatable cpu grew from 16 to 80",
		},
		"twice as much": {
			second: func(a *v1.Advertisement) { a.Capacity["cpu"], a.Allocatable["cpu"] = "32", "32" },
		},
		"five times as much after a silence": {
			second: func(a *v1.Advertisement) { a.Capacity["cpu"], a.Allocatable["cpu"] = "80", "80" },
			apart:  time.Hour,
		},
		"a resource that is new": {
			second: func(a *v1.Advertisement) { a.Capacity["nvidia.com/gpu"], a.Allocatable["nvidia.com/gpu"] = "8", "8" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				nothing := func(*v1.Advertisement) {}
				for _, change := range []func(*v1.Advertisement){tc.first, tc.second} {
					if change == nil {
						change = nothing
					}
					f.advertise("paris", "16", "64Gi", change)
					if tc.first == nil {
						time.Sleep(max(tc.apart, time.Second))
					}
				}
				if tc.first != nil {
					f.advertise("paris", "16", "64Gi", tc.first)
				}
				view, err := f.Cluster(f.t.Context(), "paris")
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(view.Doubts, "; "); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
					t.Errorf("doubts %q, want %q", got, tc.want)
				}
				time.Sleep(clusters.LeapDoubted)
				f.advertise("paris", "16", "64Gi", func(a *v1.Advertisement) { a.Topology.Zone = "elsewhere" })
				if view, err = f.Cluster(f.t.Context(), "paris"); err != nil || len(view.Doubts) > 0 {
					t.Errorf("later still %v, %v", view.Doubts, err)
				}
			})
		})
	}
}
