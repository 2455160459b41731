package checkup

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// oldestKubernetes serves ValidatingAdmissionPolicies and selectable fields.
var oldestKubernetes = version.MustParseGeneric("1.31.0")

// APIServer looks whether the API server answers and is new enough.
func APIServer(client discovery.ServerVersionInterface) Check {
	return Check{"API server", func(context.Context) Finding {
		info, err := client.ServerVersion()
		if err != nil {
			return Fail("is this run in a pod, or with the right --kubeconfig?", "%v", err)
		}
		found, err := version.ParseGeneric(info.GitVersion)
		if err == nil && found.LessThan(oldestKubernetes) {
			return Fail("upgrade Kubernetes", "version %s is older than %s", info.GitVersion, oldestKubernetes)
		}
		return Found("Kubernetes %s", info.GitVersion)
	}}
}

// Kinds looks whether a group's kinds are installed, and have every field that this
// version writes: an older CRD would drop the others without a word.
func Kinds(client discovery.DiscoveryInterface, group schema.GroupVersion, advice string, kinds ...runtime.Object) Check {
	return Check{"kinds of " + group.Group, func(context.Context) Finding {
		schemas, err := publishedSchemas(client, group)
		if err != nil {
			return Fail(advice, "%v", err)
		}
		var names, problems []string
		for _, kind := range kinds {
			goType := reflect.TypeOf(kind).Elem()
			names = append(names, goType.Name())
			published, ok := schemas[goType.Name()]
			if !ok {
				problems = append(problems, goType.Name()+" is not installed")
				continue
			}
			for _, field := range missing(goType, published, nil) {
				problems = append(problems, fmt.Sprintf("%s has no field %s", goType.Name(), field))
			}
		}
		if len(problems) > 0 {
			return Fail(advice, "%s", strings.Join(problems, "; "))
		}
		return Found("%s are those of this version", strings.Join(names, ", "))
	}}
}

// property is what matters here of an OpenAPI schema.
type property struct {
	Properties           map[string]*property      `json:"properties"`
	Items                *property                 `json:"items"`
	AdditionalProperties *property                 `json:"additionalProperties"`
	AllOf                []*property               `json:"allOf"`
	Kinds                []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// publishedSchemas are those of a group's kinds, by kind.
func publishedSchemas(client discovery.DiscoveryInterface, group schema.GroupVersion) (map[string]*property, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, fmt.Errorf("reading what the API server serves: %w", err)
	}
	path, ok := paths["apis/"+group.String()]
	if !ok {
		return nil, fmt.Errorf("%s is not installed in this cluster", group)
	}
	text, err := path.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", group, err)
	}
	var document struct {
		Components struct {
			Schemas map[string]*property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", group, err)
	}
	found := map[string]*property{}
	for _, published := range document.Components.Schemas {
		for _, kind := range published.Kinds {
			if kind.GroupVersion() == group {
				found[kind.Kind] = published
			}
		}
	}
	return found, nil
}

// ours is where the types are declared whose fields are compared.
var ours = strings.TrimSuffix(reflect.TypeFor[Check]().PkgPath(), "internal/checkup") + "api/"

// missing are the fields of a Go type that the published schema does not know.
func missing(t reflect.Type, published *property, path []string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		switch {
		case t.Kind() == reflect.Slice:
			published = published.Items
		case t.Kind() == reflect.Map:
			published = published.AdditionalProperties
		}
		if published = whole(published); published == nil {
			return nil
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), ours) {
		return nil
	}
	var out []string
	for field := range fields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := append(slices.Clone(path), name)
		next := whole(published.Properties[name])
		if next == nil {
			out = append(out, strings.Join(at, "."))
			continue
		}
		out = append(out, missing(field.Type, next, at)...)
	}
	return out
}

// fields of a type that are written under a name of their own.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for field := range t.Fields() {
			if field.Anonymous || field.Type == reflect.TypeFor[metav1.ObjectMeta]() {
				continue
			}
			if !yield(field) {
				return
			}
		}
	}
}

// whole is a schema without the allOf that the API server wraps one in to give it a
// default.
func whole(p *property) *property {
	if p != nil && len(p.Properties) == 0 && len(p.AllOf) == 1 {
		return p.AllOf[0]
	}
	return p
}
