package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	post = http.MethodPost
	get  = http.MethodGet

	reservationsPath = "/api/v1/reservations"
	statusPath       = reservationsPath + "/res-0000000001/status"
	goodAdvert       = `{"clusterID":"rome","epoch":1,"sequence":1,"capacity":{"cpu":"4"},"allocatable":{"cpu":"4"},"allocated":{}}`
)

func TestInvalidRequestsAreRefused(t *testing.T) {
	withKey := []string{"Idempotency-Key", key}
	cases := map[string]struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		"unknown field":                    {post, reservationsPath, `{"resources":{},"cpus":4}`, withKey, 400, `unknown field ["cpus"]`},
		"unknown field in depth":           {post, "/api/v1/advertisements", withField(`"nodeShapes":[{"count":1,"free":{},"x":1}]`), nil, 400, `nodeShapes.0: unknown field ["x"]`},
		"field in another case":            {post, reservationsPath, `{"Resources":{}}`, withKey, 400, `["Resources"]`},
		"missing field":                    {post, reservationsPath, `{}`, withKey, 400, `lacks ["resources"]`},
		"number where text belongs":        {post, reservationsPath, `{"resources":{"cpu":4}}`, withKey, 400, "resources.cpu: got number, want string"},
		"text where a number belongs":      {post, reservationsPath, `{"resources":{},"priority":"high"}`, withKey, 400, "priority: got string"},
		"fraction where a whole belongs":   {post, reservationsPath, `{"resources":{},"priority":1.5}`, withKey, 400, "priority"},
		"number out of bounds":             {post, reservationsPath, `{"resources":{},"priority":1000001}`, withKey, 400, "priority: maximum"},
		"number that fits no int64":        {post, reservationsPath, `{"resources":{},"durationSeconds":99999999999999999999}`, withKey, 400, ""},
		"duration below a minute":          {post, reservationsPath, `{"resources":{},"durationSeconds":59}`, withKey, 400, "durationSeconds: minimum"},
		"text too long":                    {post, reservationsPath, `{"resources":{},"tenant":"` + strings.Repeat("x", 64) + `"}`, withKey, 400, "tenant: maxLength"},
		"text with an escape code":         {post, reservationsPath, `{"resources":{},"tenant":"\u001b[2Jx"}`, withKey, 400, "tenant: "},
		"text with a short escape code":    {post, reservationsPath, `{"resources":{},"tenant":"\u009b2Jx"}`, withKey, 400, "tenant: "},
		"name with an escape code":         {post, "/api/v1/advertisements", withField(`"clusterName":"\u001b[2Jx"`), nil, 400, "clusterName: "},
		"region with an escape code":       {post, "/api/v1/advertisements", withField(`"topology":{"region":"\u001b[2Jx"}`), nil, 400, "topology.region: "},
		"too many resources":               {post, reservationsPath, `{"resources":{` + resources(65) + `}}`, withKey, 400, "resources: maxProperties"},
		"value outside the enumeration":    {post, statusPath, `{"placement":1,"role":"Boss","state":"Ready"}`, nil, 400, "role: value must be one of"},
		"excess without pods":              {post, statusPath, `{"placement":1,"role":"Provider","state":"Acknowledged","excess":{"resources":{}}}`, nil, 400, `excess: lacks ["pods"]`},
		"excess of too many resources":     {post, statusPath, `{"placement":1,"role":"Provider","state":"Acknowledged","excess":{"pods":1,"resources":{` + resources(17) + `}}}`, nil, 400, "excess.resources: maxProperties"},
		"excess below zero pods":           {post, statusPath, `{"placement":1,"role":"Provider","state":"Acknowledged","excess":{"pods":-1,"resources":{}}}`, nil, 400, "excess.pods: minimum"},
		"invalid time":                     {post, "/api/v1/advertisements", withField(`"timestamp":"yesterday"`), nil, 400, ""},
		"envelope without base64":          {post, "/api/v1/messages", `{"to":"paris","slot":"s","body":"?"}`, nil, 400, ""},
		"envelope too big":                 {post, "/api/v1/messages", `{"to":"paris","slot":"s","body":"` + strings.Repeat("A", 65540) + `"}`, nil, 400, "body: maxLength"},
		"list in place of an object":       {post, reservationsPath, `[]`, withKey, 400, "want object"},
		"null in place of an object":       {post, reservationsPath, `null`, withKey, 400, "want object"},
		"no body":                          {post, reservationsPath, ``, withKey, 400, "not one JSON value"},
		"half a body":                      {post, reservationsPath, `{"resources":`, withKey, 400, "not one JSON value"},
		"two bodies":                       {post, reservationsPath, `{"resources":{}}{}`, withKey, 400, "not one JSON value"},
		"body too big":                     {post, "/api/v1/advertisements", strings.Repeat(" ", maxBody+1), nil, 413, "bigger than 1048576 bytes"},
		"small body too big":               {post, reservationsPath, strings.Repeat(" ", smallBody+1), withKey, 413, "bigger than 131072 bytes"},
		"body too deep":                    {post, reservationsPath, strings.Repeat("[", 100_000), withKey, 413, "100000 values"},
		"body of empty objects":            {post, "/api/v1/holdings", `{"consumes":[` + strings.Repeat("{},", 100_000) + `{}]}`, nil, 413, "values"},
		"body of a GET":                    {get, "/api/v1/ping", strings.Repeat(" ", strayBody+1), nil, 413, "bigger than 4096 bytes"},
		"many mistakes":                    {post, reservationsPath, `{"resources":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}}`, withKey, 400, "and 2 more"},
		"no idempotency key":               {post, reservationsPath, `{"resources":{}}`, nil, 400, "Idempotency-Key"},
		"two idempotency keys":             {post, reservationsPath, `{"resources":{}}`, append(withKey, withKey...), 400, "Idempotency-Key"},
		"idempotency key too short":        {post, reservationsPath, `{"resources":{}}`, []string{"Idempotency-Key", "short"}, 400, "Idempotency-Key"},
		"idempotency key with a blank":     {post, reservationsPath, `{"resources":{}}`, []string{"Idempotency-Key", "a b c d e f"}, 400, "Idempotency-Key"},
		"name against the pattern":         {get, reservationsPath + "/res_0000000001", "", nil, 400, `path parameter "name"`},
		"name too long":                    {get, reservationsPath + "/" + strings.Repeat("a", 81), "", nil, 400, `path parameter "name"`},
		"name with a slash":                {get, reservationsPath + "/res-00000%2F01", "", nil, 400, `path parameter "name"`},
		"wait too long":                    {get, "/api/v1/instructions?wait=61", "", nil, 400, "wait"},
		"wait below zero":                  {get, "/api/v1/instructions?wait=-1", "", nil, 400, "wait"},
		"wait without a number":            {get, "/api/v1/instructions?wait=long", "", nil, 400, "wait"},
		"wait twice":                       {get, "/api/v1/instructions?wait=1&wait=2", "", nil, 400, "wait"},
		"costs by the year":                {get, "/api/v1/costs?period=year", "", nil, 400, "period"},
		"costs since yesterday":            {get, "/api/v1/costs?from=yesterday", "", nil, 400, "from"},
		"cursor too long":                  {get, "/api/v1/messages?after=" + strings.Repeat("1", 129), "", nil, 400, "after"},
		"unknown path":                     {get, "/api/v2/ping", "", nil, 404, "/openapi.json"},
		"root":                             {get, "/", "", nil, 404, ""},
		"unknown method":                   {http.MethodPut, reservationsPath, "", nil, 405, "use POST"},
		"advertisement of another cluster": {post, "/api/v1/advertisements", strings.Replace(goodAdvert, "rome", "paris", 1), nil, 403, `"paris"`},
		"request for another cluster":      {post, reservationsPath, `{"resources":{},"requesterID":"paris"}`, withKey, 403, `"paris"`},
		"message from another cluster":     {post, "/api/v1/messages", `{"from":"paris","to":"rome","slot":"s","body":""}`, nil, 403, `"paris"`},
		"unknown reservation":              {get, reservationsPath + "/res-0000000001", "", nil, 404, "res-0000000001"},
	}
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.limits = newLimits(10000, 10000) })
	client := s.client(t, "rome")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := s.send(t, client, tc.method, tc.path, tc.body, tc.header...)
			if r.StatusCode != tc.status || !strings.Contains(r.problem.Detail, tc.want) {
				t.Errorf("got %s: %q; want %d with %q", r.Status, r.problem.Detail, tc.status, tc.want)
			}
		})
	}
	for _, operation := range []transporttest.Operation{
		transporttest.PublishAdvertisement, transporttest.RequestReservation, transporttest.ReportStatus,
		transporttest.SendMessage, transporttest.FetchInstructions, transporttest.ReceiveMessages,
	} {
		if calls := s.broker.Calls(operation); len(calls) != 0 {
			t.Errorf("refused requests reached the broker: %+v", calls)
		}
	}
	if r := s.send(t, client, http.MethodPut, reservationsPath, ""); r.Header.Get("Allow") != "POST" {
		t.Errorf("405 allows %q; want POST", r.Header.Get("Allow"))
	}
}

func TestOnlyTheCheckedValueOfAFieldNamedTwiceIsUsed(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	body := withField(`"topology":{"region":"\u001b[2Jx"},"topology":{"zone":"a"}`)
	if r := s.send(t, s.client(t, "rome"), post, "/api/v1/advertisements", body); r.StatusCode != http.StatusOK {
		t.Fatalf("got %s: %q", r.Status, r.problem.Detail)
	}
	for _, call := range s.broker.Calls(transporttest.PublishAdvertisement) {
		if got := call.Body.(*v1.Advertisement).Topology; got.Region != "" || got.Zone != "a" {
			t.Errorf("topology %+v reached the broker, want the one that was checked", got)
		}
	}
}

// TestAnswersMatchTheDescription checks the schemas of answers, on which clients in other languages
// rely.
func TestAnswersMatchTheDescription(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	client := s.client(t, "rome")
	schemas, err := newCompiler(s.description.document)
	runtest.Check(t, err)
	withKey := []string{"Idempotency-Key", key}
	for _, tc := range []struct {
		method, path, body string
		status             int
		schema             string
	}{
		{get, "/api/v1/ping", "", 200, "Pong"},
		{post, "/api/v1/advertisements", goodAdvert, 200, "AdvertisementReceipt"},
		{post, "/api/v1/advertisements", strings.Replace(goodAdvert, `"allocated":{}`, `"allocated":null`, 1), 200, "AdvertisementReceipt"},
		{post, reservationsPath, `{"resources":{"cpu":"1"}}`, 200, "Reservation"},
		{get, reservationsPath + "/" + key, "", 200, "Reservation"},
		{get, reservationsPath + "/res-0000000001", "", 200, "Reservation"},
		{post, "/api/v1/holdings", `{"provides":[{"reservation":"res-0000000001","placement":101,"consumerID":"rome","resources":{"cpu":"1"}}],"consumes":[{"reservation":"res-0000000001","placement":101,"providerID":"paris"}]}`, 204, ""},
		{post, reservationsPath + "/res-0000000001/status", `{"placement":1,"role":"Consumer","state":"Ready"}`, 204, ""},
		{post, "/api/v1/quotes", `{"resources":{"cpu":"1"}}`, 200, "Quote"},
		{http.MethodDelete, "/api/v1/quotes/" + key, "", 204, ""},
		{get, "/api/v1/costs?from=2026-11-01T00:00:00Z&period=day", "", 200, "CostList"},
		{get, "/api/v1/instructions", "", 200, "InstructionList"},
		{post, "/api/v1/messages", `{"to":"rome","slot":"s","body":"AAA="}`, 204, ""},
		{get, "/api/v1/messages?after=", "", 200, "MessageList"},
		{get, "/api/v1/messages?after=1/99", "", 200, "MessageList"},
		{http.MethodDelete, reservationsPath + "/" + key, "", 200, "Reservation"},
		{http.MethodDelete, reservationsPath + "/another-key", "", 204, ""},
		{post, reservationsPath, `{"resources":{"cpu":"1"}}`, 410, "Problem"},
		{get, "/openapi.json", "", 200, ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			r := s.send(t, client, tc.method, tc.path, tc.body, withKey...)
			if r.StatusCode != tc.status {
				t.Fatalf("got %s: %s; want %d", r.Status, r.body, tc.status)
			}
			if tc.schema == "" {
				return
			}
			schema, err := schemas.Compile(documentURL + "#/components/schemas/" + tc.schema)
			runtest.Check(t, err)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
			runtest.Check(t, err)
			if err := schema.Validate(value); err != nil {
				t.Errorf("answer %s is no %s: %v", r.body, tc.schema, err)
			}
		})
	}
}

func TestDescriptionIsServed(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	r := s.send(t, s.client(t, "rome"), get, "/openapi.json", "")
	var served struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(r.body), &served); err != nil || served.OpenAPI == "" || len(served.Paths) == 0 {
		t.Errorf("description: %v: %.80s", err, r.body)
	}
	if strings.Contains(r.body, `"additionalProperties":false`) {
		t.Error("the served description is not the published one")
	}
}

// FuzzBody checks that every body gets the operation's answer or a problem document that blames the
// caller.
func FuzzBody(f *testing.F) {
	paths := []string{reservationsPath, "/api/v1/advertisements", "/api/v1/messages", statusPath, "/api/v1/holdings"}
	for i, body := range []string{`{"resources":{"cpu":"1"},"priority":5}`, goodAdvert, `{"to":"a","slot":"s","body":"AA=="}`,
		`{"placement":1,"role":"Consumer","state":"Ready"}`,
		`{"provides":[{"reservation":"res-0000000001","placement":1,"consumerID":"rome","resources":{"cpu":"1"}}],"consumes":[{}]}`, `{`, `null`, `{"resources":null}`} {
		f.Add(uint8(i), body)
	}
	d, err := newDescription(v1.OpenAPI)
	runtest.Check(f, err)
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		s := &Server{description: d}
		s.registerRoutes(operations{broker: transporttest.NewBroker(), draining: t.Context()}, func(o operation) bool { return !o.enrolment })
		r := httptest.NewRequest(post, paths[int(path)%len(paths)], strings.NewReader(body))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, &exchange{cluster: "rome"})))
		if w.Code >= http.StatusBadRequest {
			checkProblem(t, &reply{Response: w.Result(), body: w.Body.String()})
		}
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q: %d %s", r.URL, body, w.Code, w.Body)
		}
	})
}

func withField(field string) string {
	return strings.TrimSuffix(goodAdvert, "}") + "," + field + "}"
}

func resources(n int) string {
	var each []string
	for i := range n {
		each = append(each, fmt.Sprintf(`"r%d":"1"`, i))
	}
	return strings.Join(each, ",")
}
