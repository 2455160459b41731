package robustness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/yaml"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// generator generates requests from the API description, most of them valid.
type generator struct {
	schemas map[string]any
	random  *rand.Rand
	caller  string
	// names has names and keys of reservations that exist, so that generated requests can refer to them.
	names []string
	// spoil is n if about one of n generated values is invalid; 0 if none is.
	spoil int
}

// operation is an operation of the API.
type operation struct {
	method, path string
	parameters   []map[string]any
	body         map[string]any
}

// readOperations returns the operations for agents, in a stable order.
func readOperations(t *testing.T) ([]operation, map[string]any) {
	t.Helper()
	var document struct {
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	runtest.Check(t, yaml.Unmarshal(v1.OpenAPI, &document))
	var operations []operation
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		item := document.Paths[path]
		shared := objects(item["parameters"])
		for _, method := range slices.Sorted(maps.Keys(item)) {
			described, ok := item[method].(map[string]any)
			if !ok || described["tags"] != nil {
				continue
			}
			o := operation{method: strings.ToUpper(method), path: path, parameters: slices.Concat(shared, objects(described["parameters"]))}
			if body, ok := described["requestBody"].(map[string]any); ok {
				o.body = body["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
			}
			operations = append(operations, o)
		}
	}
	return operations, document.Components.Schemas
}

func objects(list any) []map[string]any {
	var out []map[string]any
	items, _ := list.([]any)
	for _, item := range items {
		out = append(out, item.(map[string]any))
	}
	return out
}

func (g *generator) resolve(schema map[string]any) map[string]any {
	for {
		if parts, ok := schema["allOf"].([]any); ok {
			schema = parts[0].(map[string]any)
			continue
		}
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		schema = g.schemas[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
	}
}

// value returns a value for a field. The field's name decides what the description leaves open.
func (g *generator) value(name string, schema map[string]any) any {
	schema = g.resolve(schema)
	if g.spoil > 0 && g.random.IntN(g.spoil) == 0 {
		return g.randomValue()
	}
	if meant, ok := g.meaningfulValue(name); ok {
		return meant
	}
	if choices, ok := schema["enum"].([]any); ok {
		return choices[g.random.IntN(len(choices))]
	}
	switch schema["type"] {
	case "object":
		return g.object(schema)
	case "array":
		items := make([]any, g.random.IntN(3))
		for i := range items {
			items[i] = g.value("", schema["items"].(map[string]any))
		}
		return items
	case "integer", "number":
		lowest, highest := bound(schema, "minimum", 0), bound(schema, "maximum", 1_000_000)
		return lowest + g.random.Int64N(max(highest-lowest, 0)+1)
	case "boolean":
		return g.random.IntN(2) == 0
	default:
		return g.text(schema)
	}
}

func bound(schema map[string]any, name string, otherwise int64) int64 {
	if n, ok := schema[name].(float64); ok {
		return int64(n)
	}
	return otherwise
}

func (g *generator) object(schema map[string]any) any {
	out := map[string]any{}
	if each, ok := schema["additionalProperties"].(map[string]any); ok && schema["properties"] == nil {
		if g.resolve(each)["type"] == "string" {
			return g.amounts()
		}
		return out
	}
	required, _ := schema["required"].([]any)
	properties := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || g.random.IntN(3) == 0 {
			out[name] = g.value(name, properties[name].(map[string]any))
		}
	}
	if out["capacity"] != nil && out["allocatable"] != nil && g.random.IntN(8) > 0 {
		out["allocatable"] = out["capacity"]
	}
	return out
}

func (g *generator) amounts() map[string]any {
	out := map[string]any{"cpu": strconv.Itoa(1 + g.random.IntN(16))}
	if g.random.IntN(8) > 0 {
		out["memory"] = strconv.Itoa(1+g.random.IntN(64)) + "Gi"
	}
	if g.random.IntN(6) == 0 {
		out["nvidia.com/gpu"] = strconv.Itoa(g.random.IntN(4))
	}
	return out
}

func (g *generator) text(schema map[string]any) string {
	switch schema["format"] {
	case "date-time":
		return time.Unix(g.random.Int64N(1<<32), 0).UTC().Format(time.RFC3339)
	case "byte":
		return base64.StdEncoding.EncodeToString([]byte("envelope"))
	}
	letters := make([]byte, 8+g.random.IntN(4))
	for i := range letters {
		letters[i] = "abcdefghij0123456789"[g.random.IntN(20)]
	}
	return string(letters[:min(int64(len(letters)), bound(schema, "maxLength", 63))])
}

var fleet = []string{"rome", "paris", "berlin"}

// meaningfulValue returns meaningful values for fields that the description only calls text or numbers. It
// returns false for all other fields, and now and then also for these, so that they get any value that the
// description allows.
func (g *generator) meaningfulValue(name string) (any, bool) {
	sometimes := g.random.IntN(10) > 0
	switch name {
	case "clusterID", "requesterID", "from":
		return g.caller, sometimes
	case "targetClusterID", "providerID", "consumerID", "to":
		return fleet[g.random.IntN(len(fleet))], sometimes
	case "reservation", "name":
		if len(g.names) > 0 {
			return g.names[g.random.IntN(len(g.names))], sometimes
		}
	case "placement":
		return 1 + g.random.IntN(2), sometimes
	case "currency":
		return "EUR", sometimes
	case "cpuCost", "memoryCost":
		return fmt.Sprintf("0.%03d", g.random.IntN(1000)), sometimes
	case "epoch":
		return 1, sometimes
	case "sequence":
		return time.Now().UnixNano(), sometimes
	case "wait":
		// Long polls would hold up all other requests.
		return g.random.IntN(100) / 99, true
	case "after":
		return "", g.random.IntN(2) == 0
	}
	return nil, false
}

// randomValue returns a value of any type and size.
func (g *generator) randomValue() any {
	values := []any{
		nil, true, -1, 0, 1.5, int64(1) << 62, "", "x", strings.Repeat("x", 3000), "\u0000", "ünï", "1e9", "-1", "9Ei", "0.0000000001",
		[]any{}, []any{1, "a", nil}, map[string]any{}, map[string]any{"cpu": "-1"}, map[string]any{"x": map[string]any{"y": 1}}, "../../etc", "%00", "a b",
	}
	return values[g.random.IntN(len(values))]
}

// request generates a request for an operation.
func (g *generator) request(ctx context.Context, o operation, base string) (*http.Request, error) {
	path, query, header := o.path, url.Values{}, http.Header{}
	for _, p := range o.parameters {
		name := p["name"].(string)
		if p["required"] != true && g.random.IntN(2) == 0 {
			continue
		}
		text := fmt.Sprint(g.value(name, p["schema"].(map[string]any)))
		switch p["in"] {
		case "path":
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
		case "query":
			query.Set(name, text)
		default:
			if strings.ContainsAny(text, "\x00\n\r") {
				text = "none"
			}
			header.Set(name, text)
			g.names = append(g.names, text)
		}
	}
	var body []byte
	if o.body != nil {
		var err error
		if body, err = json.Marshal(g.value("body", o.body)); err != nil {
			return nil, err
		}
		if g.spoil > 0 && g.random.IntN(2*g.spoil) == 0 {
			body = body[:g.random.IntN(len(body)+1)]
		}
	}
	request, err := http.NewRequestWithContext(ctx, o.method, base+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	if o.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// handlerStack runs the REST server with a broker on a journal in memory.
func handlerStack(t *testing.T) (base string, client func(id string) *http.Client) {
	t.Helper()
	check := func(err error) {
		runtest.Check(t, err)
	}
	servers, err := pkitest.NewAuthority("servers", time.Now())
	check(err)
	agents, err := pkitest.NewAuthority("agents", time.Now())
	check(err)
	pair, err := servers.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	check(err)
	files := t.TempDir()
	check(pkitest.Save(files, pair, servers.CertPEM(), agents.CertPEM()))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(err)
	b := broker.New(broker.Options{Store: journaltest.NewServer().Client(), Version: "test", Log: logr.Discard(), Now: time.Now})
	b.SetConfig(t.Context(), settings.Default())
	s, err := server.New(server.Options{
		Listener: listener, CertDir: files, Broker: b, Access: b.Access(), Log: logr.Discard(), Rate: 1e6, Burst: 1e6,
	})
	check(err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{b.Run, s.Start} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { stop(); running.Wait() })
	identities := &site{t: t, servers: servers, agents: agents}
	return "https://" + listener.Addr().String(), func(id string) *http.Client {
		return &http.Client{Transport: identities.roundTripper(id), Timeout: 90 * time.Second}
	}
}

// checkAnswer returns an error if the API may not answer like this: with a status of 500 or above other than
// 503 with Retry-After, or with an error that is not described by a complete problem document.
func checkAnswer(response *http.Response, body []byte) error {
	status := response.StatusCode
	if status < http.StatusBadRequest {
		return nil
	}
	if status >= http.StatusInternalServerError && (status != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "") {
		return errors.New("it may not fail like this")
	}
	var p v1.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("no problem document: %w", err)
	}
	if response.Header.Get("Content-Type") != "application/problem+json" || p.Status != status || p.Reason == "" || p.Title == "" {
		return fmt.Errorf("an incomplete problem document of type %q", response.Header.Get("Content-Type"))
	}
	return nil
}

// TestGeneratedRequestsAreServedOrRefused checks that every request is either served or refused
// with a reason.
func TestGeneratedRequestsAreServedOrRefused(t *testing.T) {
	count := 5000
	if soaking {
		count = 50_000
	}
	operations, schemas := readOperations(t)
	base, client := handlerStack(t)
	random := seededRandom(t)
	var mu sync.Mutex
	statuses := map[int]int{}
	var workers sync.WaitGroup
	for i := range 6 {
		g := &generator{schemas: schemas, random: rand.New(rand.NewPCG(random.Uint64(), 3)), caller: fleet[i%len(fleet)]}
		connection := client(g.caller)
		workers.Go(func() {
			for n := range count / 6 {
				// Two of three requests are valid.
				if g.spoil = 0; n%3 == 0 {
					g.spoil = 12
				}
				status := g.send(t, operations[g.random.IntN(len(operations))], base, connection)
				mu.Lock()
				statuses[status]++
				mu.Unlock()
				if t.Failed() {
					return
				}
			}
		})
	}
	workers.Wait()
	accepted, all := 0, 0
	for status, n := range statuses {
		all += n
		if status < http.StatusBadRequest {
			accepted += n
		}
	}
	t.Logf("%d requests, %d %% of them accepted, by status: %v", all, 100*accepted/max(all, 1), statuses)
	if accepted*100 < all*30 {
		t.Errorf("%d of %d requests were accepted: too few to say anything", accepted, all)
	}
}

func (g *generator) send(t *testing.T, o operation, base string, connection *http.Client) int {
	request, err := g.request(t.Context(), o, base)
	if err != nil {
		return g.send(t, o, base, connection) // a request that cannot be sent is generated again
	}
	asked := fmt.Sprintf("%s %s %v", request.Method, request.URL.RequestURI(), request.Header)
	response, err := connection.Do(request)
	if err != nil {
		t.Errorf("%s: %v", asked, err)
		return 0
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Errorf("%s: %v", asked, err)
	}
	if err := checkAnswer(response, body); err != nil {
		t.Errorf("%s: %d %.500s: %v", asked, response.StatusCode, body, err)
	}
	var made v1.Reservation
	if json.Unmarshal(body, &made) == nil && made.Name != "" {
		g.names = append(g.names, made.Name)
	}
	if surplus := len(g.names) - 200; surplus > 0 {
		g.names = slices.Delete(g.names, 0, surplus)
	}
	return response.StatusCode
}
