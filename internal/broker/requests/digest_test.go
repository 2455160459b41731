package requests

import (
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The digest of a request does not depend on the notation of its amounts, on the requester, or on the key.
func TestEqualRequestsHaveEqualDigests(t *testing.T) {
	read := func(cluster, key string, change func(*v1.ReservationRequest)) string {
		req := &v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "500m", "memory": "2Gi"}, DurationSeconds: int64(time.Hour / time.Second), Group: "web",
			Constraints: &v1.Constraints{Regions: []string{"eu"}},
			PodShapes:   []v1.PodShape{{Count: 1, Resources: v1.Amounts{"memory": "1Gi", "cpu": "500m"}}},
			Data:        &v1.DataVolume{Volume: "1Ti"},
		}
		change(req)
		q, err := Read(cluster, key, req)
		runtest.Check(t, err)
		return q.Digest()
	}
	want := read("rome", "key-1", func(*v1.ReservationRequest) {})
	equal := map[string]string{
		"another key": read("paris", "key-2", func(*v1.ReservationRequest) {}),
		"equal amounts in other words": read("rome", "key-1", func(r *v1.ReservationRequest) {
			r.Resources["cpu"], r.PodShapes[0].Resources = "0.5", v1.Amounts{"memory": "1073741824", "cpu": "0.500"}
			r.Data.Volume = "1024Gi"
		}),
	}
	for name, got := range equal {
		if got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
	other := map[string]func(*v1.ReservationRequest){
		"other amounts": func(r *v1.ReservationRequest) { r.Resources["cpu"] = "501m" },
		"another group": func(r *v1.ReservationRequest) { r.Group = "db" },
		"other regions": func(r *v1.ReservationRequest) { r.Constraints.Regions = nil },
		"other pods":    func(r *v1.ReservationRequest) { r.PodShapes[0].Resources["memory"] = "2Gi" },
		"idle":          func(r *v1.ReservationRequest) { r.Idle = &v1.Idle{AfterSeconds: 60, Action: v1.IdleActionNotify} },
		"other data":    func(r *v1.ReservationRequest) { r.Data.Volume = "2Ti" },
	}
	for name, change := range other {
		if read("rome", "key-1", change) == want {
			t.Errorf("%s: the same digest", name)
		}
	}
}
