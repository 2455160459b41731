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

// oldestKubernetes is the oldest version of Kubernetes with what this product needs:
// ValidatingAdmissionPolicy and selectable fields of CRDs.
var oldestKubernetes = version.MustParseGeneric("1.31.0")

// APIServer returns a check that the API server answers and is recent enough.
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

// CRDs returns a check that a CRD is installed for every kind of the scheme in a group, and that it
// has every field that this version of the product uses. The API server silently drops a field that
// is not in the CRD.
func CRDs(client discovery.DiscoveryInterface, group schema.GroupVersion, advice string, scheme *runtime.Scheme) Check {
	return Check{"CRDs of " + group.Group, func(context.Context) Finding {
		schemas, err := publishedSchemas(client, group)
		if err != nil {
			return Fail(advice, "%v", err)
		}
		var names, problems []string
		for _, goType := range listTypes(scheme, group) {
			names = append(names, goType.Name())
			published, ok := schemas[goType.Name()]
			if !ok {
				problems = append(problems, goType.Name()+" is not installed")
				continue
			}
			for _, field := range missingFields(goType, published, nil) {
				problems = append(problems, fmt.Sprintf("%s has no field %s", goType.Name(), field))
			}
		}
		if len(problems) > 0 {
			return Fail(advice, "%s", strings.Join(problems, "; "))
		}
		return Found("%s match this version", strings.Join(names, ", "))
	}}
}

// listTypes returns the Go types of a group's objects, sorted by name. It omits the types of lists.
func listTypes(scheme *runtime.Scheme, group schema.GroupVersion) []reflect.Type {
	var out []reflect.Type
	for _, goType := range scheme.KnownTypes(group) {
		_, isList := goType.FieldByName("Items")
		if strings.HasPrefix(goType.PkgPath(), apiPackages) && !isList {
			out = append(out, goType)
		}
	}
	slices.SortFunc(out, func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// property is the part of an OpenAPI schema that is needed to compare a CRD with a Go type.
type property struct {
	Properties           map[string]*property      `json:"properties"`
	Items                *property                 `json:"items"`
	AdditionalProperties *property                 `json:"additionalProperties"`
	AllOf                []*property               `json:"allOf"`
	Kinds                []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// publishedSchemas returns the schemas that the API server publishes for a group, by kind.
func publishedSchemas(client discovery.DiscoveryInterface, group schema.GroupVersion) (map[string]*property, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, fmt.Errorf("reading the API server's OpenAPI paths: %w", err)
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

// apiPackages is the prefix of the import paths of the packages under api/. Only the fields of
// types in these packages are compared.
var apiPackages = strings.TrimSuffix(reflect.TypeFor[Check]().PkgPath(), "internal/cli/checkup") + "api/"

// missingFields returns the paths of the fields that a Go type has but the published schema does
// not have. It looks only into types of this product's API.
func missingFields(t reflect.Type, published *property, path []string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		switch {
		case t.Kind() == reflect.Slice:
			published = published.Items
		case t.Kind() == reflect.Map:
			published = published.AdditionalProperties
		}
		if published = unwrapAllOf(published); published == nil {
			return nil
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), apiPackages) {
		return nil
	}
	var out []string
	for field := range t.Fields() {
		if field.Anonymous || field.Type == reflect.TypeFor[metav1.ObjectMeta]() {
			continue // it has no JSON name of its own, or is Kubernetes' own
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := append(slices.Clone(path), name)
		next := unwrapAllOf(published.Properties[name])
		if next == nil {
			out = append(out, strings.Join(at, "."))
			continue
		}
		out = append(out, missingFields(field.Type, next, at)...)
	}
	return out
}

// unwrapAllOf returns the schema inside an allOf of one element. The API server wraps schemas in
// this way to give them a default. Any other schema is returned unchanged.
func unwrapAllOf(p *property) *property {
	if p != nil && len(p.Properties) == 0 && len(p.AllOf) == 1 {
		return p.AllOf[0]
	}
	return p
}
