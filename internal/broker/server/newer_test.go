package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestUnknownFieldsAreToleratedOnlyInReportsOfNewerCallers(t *testing.T) {
	const same, newer, muchNewer = v1.Minor, v1.Minor + 1, v1.Minor + 9
	for name, tc := range map[string]struct {
		path, body, minor string
		status            int
		want              string
	}{
		"a newer caller advertises":                {"/api/v1/advertisements", withField(`"mood":{"good":true}`), strconv.Itoa(newer), 200, ""},
		"a newer caller advertises, nested":        {"/api/v1/advertisements", withField(`"nodeShapes":[{"count":1,"free":{"cpu":"1"}},{"count":1,"free":{"cpu":"1"},"x":1}]`), strconv.Itoa(newer), 200, ""},
		"a much newer caller advertises":           {"/api/v1/advertisements", withField(`"mood":1`), strconv.Itoa(muchNewer), 200, ""},
		"a newer caller reports":                   {statusPath, `{"placement":1,"role":"Consumer","state":"Ready","mood":1}`, strconv.Itoa(newer), 204, ""},
		"a newer caller announces":                 {"/api/v1/holdings", `{"provides":[],"consumes":[],"mood":[]}`, strconv.Itoa(newer), 204, ""},
		"a newer caller sends a message":           {"/api/v1/messages", `{"to":"paris","slot":"s","body":"AA==","mood":null}`, strconv.Itoa(newer), 204, ""},
		"the same version advertises":              {"/api/v1/advertisements", withField(`"mood":1`), strconv.Itoa(same), 400, `unknown field ["mood"]`},
		"a caller without a version":               {"/api/v1/advertisements", withField(`"mood":1`), "", 400, `unknown field ["mood"]`},
		"a caller with an invalid version":         {"/api/v1/advertisements", withField(`"mood":1`), "new", 400, `unknown field ["mood"]`},
		"a newer caller requests":                  {reservationsPath, `{"resources":{},"mood":1}`, strconv.Itoa(newer), 400, `unknown field ["mood"] (the caller speaks v1.2, this broker v1.1: upgrade the broker, or leave out the new fields)`},
		"a newer caller asks for a quote":          {"/api/v1/quotes", `{"resources":{},"mood":1}`, strconv.Itoa(newer), 400, `unknown field ["mood"]`},
		"a newer caller requests known fields":     {reservationsPath, `{"resources":{"cpu":"1"}}`, strconv.Itoa(newer), 200, ""},
		"known fields are validated":               {"/api/v1/advertisements", withField(`"mood":1,"timestamp":5`), strconv.Itoa(newer), 400, "timestamp: got number"},
		"missing fields are reported":              {"/api/v1/advertisements", `{"mood":1}`, strconv.Itoa(newer), 400, `body: lacks ["clusterID"`},
		"a known field in another case is dropped": {"/api/v1/messages", `{"to":"paris","slot":"s","body":"AA==","Slot":"` + strings.Repeat("x", 200) + `"}`, strconv.Itoa(newer), 204, ""},
		"an unknown value is refused":              {statusPath, `{"placement":1,"role":"Witness","state":"Ready"}`, strconv.Itoa(newer), 400, "role: value must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, transporttest.NewBroker())
			header := []string{"Idempotency-Key", key}
			if tc.minor != "" {
				header = append(header, v1.MinorHeader, tc.minor)
			}
			r := s.send(t, s.client(t, "rome"), post, tc.path, tc.body, header...)
			if r.StatusCode != tc.status || !strings.Contains(r.problem.Detail, tc.want) {
				t.Errorf("got %s: %q; want %d with %q", r.Status, r.problem.Detail, tc.status, tc.want)
			}
			for _, call := range s.broker.Calls(transporttest.SendMessage) {
				if got := call.Body.(*v1.Message).Slot; got != "s" {
					t.Errorf("slot %q reached the broker, want the one that was checked", got)
				}
			}
		})
	}
}

// TestAgentWorksWithABrokerOneMinorVersionOlder connects the real client to a broker of the
// previous minor version, in which four schemas lack one field each.
func TestAgentWorksWithABrokerOneMinorVersionOlder(t *testing.T) {
	older := without(t, map[string]string{
		"Advertisement": "lending", "NodeShape": "nodeLabels", "StatusReport": "reason", "ReservationRequest": "tenant",
	})
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { *s.description = *older })
	agent := s.agent(t)

	pong, err := agent.Ping(t.Context())
	if err != nil || pong.ApiMinor == 0 {
		t.Fatalf("ping: %+v, %v", pong, err)
	}
	amounts := v1.Amounts{"cpu": "4"}
	shape := v1.NodeShape{Count: 1, Free: amounts}
	known := v1.Advertisement{ClusterID: "rome", Epoch: 1, Sequence: 1, Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{}, NodeShapes: []v1.NodeShape{shape}}
	told := known
	shape.NodeLabels = v1.Labels{"gpu": "a100"}
	told.NodeShapes, told.Lending = []v1.NodeShape{shape}, v1.Lending{Paused: true}
	if _, err := agent.PublishAdvertisement(t.Context(), &told); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(&known, s.broker.Calls(transporttest.PublishAdvertisement)[0].Body); diff != "" {
		t.Errorf("advertisement (-want +got):\n%s", diff)
	}

	r, err := agent.RequestReservation(t.Context(), key, &v1.ReservationRequest{Resources: amounts})
	if err != nil {
		t.Fatalf("a known field is refused: %v", err)
	}
	report := v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateReady, Reason: "New"}
	if err := agent.ReportStatus(t.Context(), r.Name, &report); err != nil {
		t.Error(err)
	}
	_, err = agent.RequestReservation(t.Context(), key+"2", &v1.ReservationRequest{Resources: amounts, Tenant: "blue"})
	if fault.ReasonOf(err) != fault.Invalid || !strings.Contains(err.Error(), `unknown field ["tenant"]`) || !strings.Contains(err.Error(), "upgrade the broker") {
		t.Errorf("an unknown field: %v; want a refusal that names it", err)
	}
	if calls := s.broker.Calls(transporttest.RequestReservation); len(calls) != 1 {
		t.Errorf("%d requests reached the broker, want the one that it knows", len(calls))
	}
}

// TestBrokerWorksWithAnAgentOneMinorVersionOlder connects an agent of the previous minor version,
// which lacks a field that the broker knows.
func TestBrokerWorksWithAnAgentOneMinorVersionOlder(t *testing.T) {
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.description.minor = v1.Minor + 1 })
	agent := s.agent(t)
	amounts := v1.Amounts{"cpu": "4"}
	told := v1.Advertisement{ClusterID: "rome", Epoch: 1, Sequence: 1, Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{}}
	if _, err := agent.PublishAdvertisement(t.Context(), &told); err != nil {
		t.Error(err)
	}
	r, err := agent.RequestReservation(t.Context(), key, &v1.ReservationRequest{Resources: amounts})
	if err != nil || r.Name == "" {
		t.Errorf("%+v, %v", r, err)
	}
	// Callers of the same or an older version than the broker must not send unknown fields.
	refused := s.send(t, s.client(t, "rome"), post, "/api/v1/advertisements", withField(`"mood":1`), v1.MinorHeader, strconv.Itoa(v1.Minor))
	if refused.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown field of an older caller: %s", refused.Status)
	}
}

// agent returns the client that agents use.
func (s *site) agent(t *testing.T) *httptransport.Transport {
	t.Helper()
	dir := t.TempDir()
	pair, err := s.agentsCA.IssueClient("rome", "")
	runtest.Check(t, err)
	runtest.Check(t, pkitest.Save(dir, pair, s.serverCA.CertPEM(), s.agentsCA.CertPEM()))
	files, err := pki.OpenFiles(dir, s.clock.Now)
	runtest.Check(t, err)
	agent, err := httptransport.New(httptransport.Options{URLs: []string{"https://" + s.address}, Files: files})
	runtest.Check(t, err)
	t.Cleanup(func() { _ = agent.Close() }) // Close never fails
	return agent
}

// without returns the description of the previous minor version, in which some schemas lack a property.
func without(t *testing.T, properties map[string]string) *description {
	t.Helper()
	document := map[string]any{}
	runtest.Check(t, yaml.Unmarshal(v1.OpenAPI, &document))
	schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
	for schema, property := range properties {
		known := schemas[schema].(map[string]any)["properties"].(map[string]any)
		if known[property] == nil {
			t.Fatalf("%s has no property %q", schema, property)
		}
		delete(known, property)
	}
	text, err := json.Marshal(document)
	runtest.Check(t, err)
	d, err := newDescription(text)
	runtest.Check(t, err)
	d.minor--
	return d
}
