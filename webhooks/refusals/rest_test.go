package refusals

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// call is an invalid REST request of a member, rome by default. internal/broker/server tests what its schemas refuse.
type call struct {
	member, method, path, key, body string
	status                          int
	want                            []string
}

const (
	reservations   = "/api/v1/reservations"
	advertisements = "/api/v1/advertisements"
	key            = "wrong-request-1"
)

// reserve returns a reservation request with a body.
func reserve(body string, want ...string) call {
	return call{path: reservations, key: key, body: body, status: http.StatusBadRequest, want: want}
}

func advertise(body string, want ...string) call {
	return call{path: advertisements, body: body, status: http.StatusBadRequest, want: want}
}

var calls = map[string]call{
	"no resources":                          reserve(`{}`, `lacks ["resources"]`),
	"resources of nothing":                  reserve(`{"resources": {}}`, "resources: ask for at least one resource in an amount above zero"),
	"zero of everything":                    reserve(`{"resources": {"cpu": "0", "memory": "0"}}`, "resources: ask for at least one resource in an amount above zero"),
	"no cpu beside memory":                  reserve(`{"resources": {"cpu": "0", "memory": "1Gi"}}`, "resources: cpu must be above zero, for example 500m: a virtual node needs cpu and memory"),
	"cpu without memory":                    reserve(`{"resources": {"cpu": "1"}}`, "resources: memory must be above zero, for example 256Mi: a virtual node needs cpu and memory"),
	"a GPU alone":                           reserve(`{"resources": {"nvidia.com/gpu": "1"}}`, "resources: cpu must be above zero"),
	"a negative amount":                     reserve(`{"resources": {"cpu": "-1"}}`, "resources", `"cpu"`, "is negative"),
	"an amount that is no quantity":         reserve(`{"resources": {"cpu": "many"}}`, "resources", `"cpu"`, "is not a quantity such as 500m, 4Gi or 2"),
	"an amount that takes minutes":          reserve(`{"resources": {"cpu": "1e2147483647"}}`, "resources", `"cpu"`, "is not a quantity such as"),
	"an amount beyond counting":             reserve(`{"resources": {"memory": "5Ei"}}`, "resources", `"memory"`, "is too large"),
	"half a GPU":                            reserve(`{"resources": {"nvidia.com/gpu": "500m"}}`, "resources", `"nvidia.com/gpu"`, "must be a whole number"),
	"a resource by a wrong name":            reserve(`{"resources": {"cpus": "1"}}`, "resources", `unknown resource "cpus": use cpu, memory`),
	"eleven resources":                      reserve(`{"resources": {"cpu": "1", "a/1": "1", "a/2": "1", "a/3": "1", "a/4": "1", "a/5": "1", "a/6": "1", "a/7": "1", "a/8": "1", "a/9": "1", "a/10": "1"}}`, "resources: 11 kinds of resource are asked for, the most is 10"),
	"above the most of one reservation":     reserve(`{"resources": {"cpu": "33", "memory": "1Gi"}}`, "resources: 33 of cpu is more than one reservation may ask for: the most is 32, set by BrokerConfig.spec.maxPerReservation; ask for less"),
	"longer than is allowed":                reserve(`{"resources": {"cpu": "1", "memory": "1Gi"}, "durationSeconds": 86401}`, "duration: 24h0m1s is longer than one reservation may be held: the longest is 24h0m0s"),
	"longer than can be counted":            reserve(`{"resources": {"cpu": "1"}, "durationSeconds": 9223372036854775807}`, "durationSeconds", "is too long, the most is 315360000"),
	"of negative priority":                  reserve(`{"resources": {"cpu": "1"}, "priority": -1}`, "priority", "0"),
	"a toleration of a control plane":       reserve(`{"resources": {"cpu": "1"}, "constraints": {"tolerations": [{"key": "node-role.kubernetes.io/control-plane"}]}}`, "constraints.tolerations[0]", "never offered: use a key of your own"),
	"a target with a name that is too long": reserve(`{"resources": {"cpu": "1"}, "targetClusterID": "`+strings.Repeat("a", 41)+`"}`, "targetClusterID", "40"),
	"more than any cluster has": {
		path: reservations, key: key, body: `{"resources": {"cpu": "32", "memory": "1Gi", "nvidia.com/gpu": "1"}}`, status: http.StatusConflict,
		want: []string{"no cluster can hold", "milan: ", "nvidia.com/gpu"},
	},
	"by a denied cluster": {
		member: "mallory", path: reservations, key: key, body: `{"resources": {"cpu": "1", "memory": "1Gi"}}`, status: http.StatusForbidden,
		want: []string{"mallory", "spec.deniedClusters"},
	},
	"an advertisement of more than there is": advertise(
		`{"clusterID": "rome", "epoch": 99999999999, "sequence": 1, "capacity": {"cpu": "1"}, "allocatable": {"cpu": "2"}, "allocated": {}}`, "allocatable cpu 2 is more than the capacity 1"),
	"an advertisement with an invalid price": advertise(
		`{"clusterID": "rome", "epoch": 99999999999, "sequence": 1, "capacity": {}, "allocatable": {}, "allocated": {}, "cost": {"cpuCost": "1e9", "currency": "EUR"}}`, "price of cpu", "write digits and one decimal point"),
	"an advertisement of its own reserved": advertise(
		`{"clusterID": "rome", "epoch": 99999999999, "sequence": 1, "capacity": {}, "allocatable": {}, "allocated": {}, "reserved": {"cpu": "0"}}`, `unknown field ["reserved"]`),
	"a report on what does not exist": {
		path: reservations + "/res-aaaaaaaaaa/status", body: `{"role": "Consumer", "placement": 1, "state": "Ready"}`, status: http.StatusNotFound, want: []string{"res-aaaaaaaaaa"},
	},
	"a report of a state that does not exist": {
		path: reservations + "/res-aaaaaaaaaa/status", body: `{"role": "Consumer", "placement": 1, "state": "Happy"}`, status: http.StatusBadRequest, want: []string{"state", "Ready"},
	},
	"a question for another's reservation": {method: http.MethodGet, path: reservations + "/res-aaaaaaaaaa", status: http.StatusNotFound, want: []string{"res-aaaaaaaaaa"}},
}

// refused sends a call and returns the broker's refusal.
func (s *site) refused(t *testing.T, c call) string {
	t.Helper()
	member, method := c.member, c.method
	if member == "" {
		member = "rome"
	}
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+c.path, strings.NewReader(c.body))
	runtest.Check(t, err)
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("Idempotency-Key", c.key)
	}
	response, err := s.member(t, member).Do(request)
	runtest.Check(t, err)
	defer response.Body.Close() //nolint:errcheck // the body was read, so an error does not matter
	var problem v1.Problem
	runtest.Check(t, json.NewDecoder(response.Body).Decode(&problem))
	if response.StatusCode != c.status {
		t.Errorf("status %d, want %d", response.StatusCode, c.status)
	}
	return problem.Detail
}
