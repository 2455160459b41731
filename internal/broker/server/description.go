package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"sigs.k8s.io/yaml"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Limits of a request body. An advertisement of a cluster with 4096 placements takes about half of maxBody.
const (
	maxBody = 1 << 20
	// smallBody is the limit for operations whose bodies do not grow with the cluster.
	smallBody          = 128 << 10
	defaultBodyTimeout = 10 * time.Second
	// strayBody is the limit for a body sent to an operation that has none.
	strayBody = 4 << 10
	// maxFindings is the number of mistakes that one refusal lists.
	maxFindings = 5
)

// description is the API description, compiled for validating requests.
type description struct {
	document []byte
	// minor is the minor version of the described API.
	minor       int32
	operations  map[string]operation
	bodyTimeout time.Duration
	maxBody     int64
	// admitBody is called before a body of at most size bytes is read.
	admitBody func(caller string, size int64) error
	// arrived is called when a request and its body have arrived, before the operation runs.
	arrived func(*http.Request) (done func(), err error)
}

// operation is one operation of the API. description.operations has it under its pattern for http.ServeMux.
type operation struct {
	id string
	// enrolment marks operations for clusters without a certificate.
	enrolment bool
	// large marks operations whose bodies grow with the size of a cluster.
	large bool
	// tolerant marks bodies in which unknown fields of newer callers are dropped.
	tolerant   bool
	body       *jsonschema.Schema
	parameters []parameter
}

type parameter struct {
	name, in string
	required bool
	schema   *jsonschema.Schema
}

// The fields of the document that the server reads.
type (
	openAPI struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	openAPIOperation struct {
		OperationID string             `json:"operationId"`
		Tags        []string           `json:"tags"`
		Parameters  []openAPIParameter `json:"parameters"`
		RequestBody *struct{}          `json:"requestBody"`
		// NewerCallers is "tolerated" if the operation ignores unknown fields from callers with a newer minor version;
		// otherwise it is empty.
		NewerCallers string `json:"x-newer-callers"`
		// Body is "large" if the operation accepts larger bodies than the others; otherwise it is empty.
		Body string `json:"x-body"`
	}
	openAPIParameter struct {
		Name     string `json:"name"`
		In       string `json:"in"`
		Required bool   `json:"required"`
	}
)

const documentURL = "openapi.json"

func newDescription(openAPIYAML []byte) (*description, error) {
	document, err := yaml.YAMLToJSON(openAPIYAML)
	if err != nil {
		return nil, fmt.Errorf("API description: %w", err)
	}
	schemas, err := newCompiler(document)
	if err != nil {
		return nil, fmt.Errorf("API description: %w", err)
	}
	var api openAPI
	if err := json.Unmarshal(document, &api); err != nil {
		return nil, fmt.Errorf("API description: %w", err)
	}
	d := &description{document: document, minor: v1.Minor, operations: map[string]operation{}, bodyTimeout: defaultBodyTimeout, maxBody: maxBody,
		admitBody: func(string, int64) error { return nil }, arrived: func(*http.Request) (func(), error) { return func() {}, nil }}
	for path, item := range api.Paths {
		if err := d.addPath(path, item, schemas); err != nil {
			return nil, fmt.Errorf("API description: path %q: %w", path, err)
		}
	}
	return d, nil
}

// newCompiler reads the schemas of the document and makes them strict: they refuse fields that are not described. An
// empty map may be null, because Go encodes a nil map as null.
func newCompiler(document []byte) (*jsonschema.Compiler, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	root, _ := doc.(map[string]any)
	components, _ := root["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for _, s := range schemas {
		schema, _ := s.(map[string]any)
		if schema["type"] != "object" {
			continue
		}
		if _, open := schema["additionalProperties"]; open {
			schema["type"] = []any{"object", "null"}
			continue
		}
		schema["additionalProperties"] = false
	}
	compiler := jsonschema.NewCompiler()
	return compiler, compiler.AddResource(documentURL, doc)
}

func (d *description) addPath(path string, item map[string]json.RawMessage, schemas *jsonschema.Compiler) error {
	at := documentURL + "#/paths/" + strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1")
	var shared []openAPIParameter
	if raw, ok := item["parameters"]; ok {
		if err := json.Unmarshal(raw, &shared); err != nil {
			return err
		}
	}
	sharedParameters, err := compileParameters(at, shared, schemas)
	if err != nil {
		return err
	}
	for method, raw := range item {
		if method == "parameters" {
			continue
		}
		o, err := compileOperation(at+"/"+method, raw, schemas)
		if err != nil {
			return err
		}
		o.parameters = slices.Concat(sharedParameters, o.parameters)
		d.operations[strings.ToUpper(method)+" "+path] = o
	}
	return nil
}

func compileOperation(at string, raw json.RawMessage, schemas *jsonschema.Compiler) (operation, error) {
	var described openAPIOperation
	if err := json.Unmarshal(raw, &described); err != nil {
		return operation{}, err
	}
	o := operation{
		id: described.OperationID, enrolment: slices.Contains(described.Tags, enrolmentTag),
		tolerant: described.NewerCallers == "tolerated", large: described.Body == "large",
	}
	var err error
	if o.parameters, err = compileParameters(at, described.Parameters, schemas); err != nil {
		return operation{}, err
	}
	if described.RequestBody != nil {
		o.body, err = schemas.Compile(at + "/requestBody/content/application~1json/schema")
	}
	return o, err
}

func compileParameters(at string, described []openAPIParameter, schemas *jsonschema.Compiler) ([]parameter, error) {
	var parameters []parameter
	for i, p := range described {
		schema, err := schemas.Compile(fmt.Sprintf("%s/parameters/%d/schema", at, i))
		if err != nil {
			return nil, err
		}
		parameters = append(parameters, parameter{name: p.Name, in: p.In, required: p.Required, schema: schema})
	}
	return parameters, nil
}

// checkRequest passes on only requests that satisfy the description. It passes on exactly the body that was validated.
func (d *description) checkRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, known := d.operations[r.Pattern]
		if !known {
			writeProblem(w, r, fmt.Errorf("pattern %q is not in the API description", r.Pattern))
			return
		}
		if err := o.checkParameters(r); err != nil {
			writeProblem(w, r, err)
			return
		}
		if o.body != nil {
			body, err := d.readBody(w, r, o)
			if err != nil {
				writeProblem(w, r, err)
				return
			}
			r.Body = body
		}
		done, err := d.arrived(r)
		if err != nil {
			writeProblem(w, r, err)
			return
		}
		defer done()
		next.ServeHTTP(w, r)
	})
}

func (o operation) checkParameters(r *http.Request) error {
	for _, p := range o.parameters {
		values := p.valuesIn(r)
		if len(values) == 0 && !p.required {
			continue
		}
		if len(values) != 1 {
			return fault.New(fault.Invalid, "%s parameter %q: given %d times, want it once", p.in, p.name, len(values))
		}
		if err := p.schema.Validate(p.parseText(values[0])); err != nil {
			return fault.New(fault.Invalid, "%s parameter %q: %s", p.in, p.name, listFindings(err))
		}
	}
	return nil
}

func (p parameter) valuesIn(r *http.Request) []string {
	switch p.in {
	case "query":
		return r.URL.Query()[p.name]
	case "header":
		return r.Header.Values(p.name)
	default:
		return []string{r.PathValue(p.name)}
	}
}

// parseText returns the value to validate: if the parameter is an integer, text as a number, otherwise text itself. It
// returns text that is not a number unchanged, so that the schema refuses it.
func (p parameter) parseText(text string) any {
	if p.schema.Types == nil || !slices.Contains(p.schema.Types.ToStrings(), "integer") {
		return text
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return text
	}
	return value
}

func (d *description) bodyLimit(o operation) int64 {
	if o.large {
		return d.maxBody
	}
	return min(d.maxBody, smallBody)
}

func (d *description) readBody(w http.ResponseWriter, r *http.Request, o operation) (io.ReadCloser, error) {
	size := d.bodyLimit(o)
	if r.ContentLength >= 0 && r.ContentLength < size {
		size = r.ContentLength
	}
	if err := d.admitBody(callerOf(r.Context()), size); err != nil {
		return nil, err
	}
	raw, err := d.readAll(w, r, d.bodyLimit(o))
	if err == nil {
		err = checkDensity(raw)
	}
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fault.New(fault.Invalid, "body is not one JSON value")
	}
	minor := v1.MinorOf(r)
	err = o.body.Validate(value)
	if err != nil && o.tolerant && minor > d.minor {
		dropUnknown(value, err)
		err = o.body.Validate(value)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "body: %s%s", listFindings(err), d.explainNewerCaller(minor))
	}
	// A body may name a field twice. The schema has checked only the last value, but the decoder would merge both.
	if raw, err = json.Marshal(value); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// dropBody reads a body that the operation does not use, within the limits of readAll. Without dropBody, net/http would
// read the body before it answers, and wait even for a body that never ends.
func (d *description) dropBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	_, err := d.readAll(w, r, strayBody)
	return err
}

// readAll reads a body, which must arrive within bodyTimeout. The server's ReadTimeout cannot be used for this, because
// it would also end long polls over HTTP/1.1.
func (d *description) readAll(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	control := http.NewResponseController(w)
	late := time.AfterFunc(d.bodyTimeout, func() {
		// A deadline in the past ends the read. Without deadline support, WriteTimeout ends it.
		_ = control.SetReadDeadline(time.Unix(1, 0))
	})
	defer late.Stop()
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if tooBig, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &statusError{http.StatusRequestEntityTooLarge,
			fault.New(fault.Invalid, "body is bigger than %d bytes", tooBig.Limit)}
	}
	if err != nil {
		return nil, &statusError{http.StatusRequestTimeout,
			fault.New(fault.Invalid, "body did not arrive within %s", d.bodyTimeout)}
	}
	if late.Stop() {
		// The deadline is for the body only. The operation must not inherit it.
		_ = control.SetReadDeadline(time.Time{})
	}
	return raw, nil
}

var english = message.NewPrinter(language.English)

// listFindings lists the mistakes of a failed validation, each with its field, in a stable order.
func listFindings(err error) string {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err.Error()
	}
	found := map[string]bool{}
	collectFindings(invalid, found)
	texts := slices.Sorted(maps.Keys(found))
	if more := len(texts) - maxFindings; more > 0 {
		texts = append(texts[:maxFindings], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// mostFound limits the search for mistakes. A body can have as many mistakes as it has bytes, but the refusal lists
// only maxFindings.
const mostFound = 1000

func collectFindings(e *jsonschema.ValidationError, found map[string]bool) {
	if len(found) >= mostFound {
		return
	}
	for _, cause := range e.Causes {
		collectFindings(cause, found)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := ""
	if len(e.InstanceLocation) > 0 {
		at = strings.Join(e.InstanceLocation, ".") + ": "
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		found[fmt.Sprintf("%sunknown field %q", at, k.Properties)] = true
	case *kind.Required:
		found[fmt.Sprintf("%slacks %q", at, k.Missing)] = true
	default:
		found[at+e.ErrorKind.LocalizedString(english)] = true
	}
}

// explainNewerCaller returns a text for the refusal of a body that says what to do if the caller speaks a newer minor
// version than this broker; "" if it does not.
func (d *description) explainNewerCaller(minor int32) string {
	if minor <= d.minor {
		return ""
	}
	return fmt.Sprintf(" (the caller speaks v1.%d, this broker v1.%d: upgrade the broker, or leave out the new fields)", minor, d.minor)
}

// dropUnknown removes the fields from value that err reports as unknown. They must not reach the decoder, which
// matches names without regard to case: an unknown field could overwrite a validated one.
func dropUnknown(value any, err error) {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return
	}
	for _, cause := range invalid.Causes {
		dropUnknown(value, cause)
	}
	if unknown, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		object, _ := elementAt(value, invalid.InstanceLocation).(map[string]any)
		for _, field := range unknown.Properties {
			delete(object, field)
		}
	}
}

// elementAt returns the element of value at a path of names and indexes, nil if there is none.
func elementAt(value any, path []string) any {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}
