package charttest

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
)

// templates of a chart, all of them as one text.
func templates(t *testing.T, files fs.FS) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(files, "templates", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func read[T any](t *testing.T, files fs.FS, name string, parse func([]byte, any) error) T {
	t.Helper()
	text, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := parse(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func yamlStrict(text []byte, out any) error { return yaml.UnmarshalStrict(text, out) }

// What a template makes must follow from its values alone.
func TestTemplatesAreDeterministic(t *testing.T) {
	forbidden := regexp.MustCompile(`\b(lookup|gen(CA|SelfSigned|Signed|PrivateKey)\w*|rand(Alpha|AlphaNum|Numeric|Ascii|Int|Bytes)|uuidv4|now|ago|htpasswd|bcrypt|derivePassword|encryptAES|shuffle|getHostByName)\b`)
	actions := regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	comments := regexp.MustCompile(`(?s)\{\{-?\s*/\*.*?\*/\s*-?\}\}`)
	quoted := regexp.MustCompile(`"[^"]*"`)
	for name, c := range chartsUnderTest {
		text := comments.ReplaceAllString(templates(t, c.files), "")
		for _, action := range actions.FindAllString(text, -1) {
			if found := forbidden.FindString(quoted.ReplaceAllString(action, "")); found != "" {
				t.Errorf("chart %s uses %s in %s: Argo CD would never be in sync", name, found, action)
			}
		}
	}
}

// Every key of the values is read by a template, as a whole or by a name in it, and
// stands in the schema, which knows no other.
func TestValuesAreUsedAndInTheSchema(t *testing.T) {
	for name, c := range chartsUnderTest {
		t.Run(name, func(t *testing.T) {
			text := templates(t, c.files)
			values := read[map[string]any](t, c.files, "values.yaml", yamlStrict)
			schema := read[map[string]any](t, c.files, "values.schema.json", json.Unmarshal)
			walkValues(values, nil, func(key []string) {
				if !used(text, key) {
					t.Errorf("%s is in values.yaml, and no template reads it", strings.Join(key, "."))
				}
				if _, found := schemaOf(schema, key); !found {
					t.Errorf("%s is in values.yaml, and not in the schema", strings.Join(key, "."))
				}
			})
			walkSchema(schema, schema, nil, func(key []string) {
				if key[0] == "global" {
					return // Helm's own
				}
				if within(values, key) == nil {
					t.Errorf("%s is in the schema, and not in values.yaml", strings.Join(key, "."))
				}
			})
		})
	}
}

// The README has a row for every value, with words that are not empty.
func TestValuesAreDocumented(t *testing.T) {
	for name, c := range chartsUnderTest {
		values := read[map[string]any](t, c.files, "values.yaml", yamlStrict)
		readme, err := fs.ReadFile(c.files, "README.md")
		if err != nil {
			t.Fatal(err)
		}
		rows := regexp.MustCompile(`(?m)^\| (\S+) \| .* \| (.*) \|$`).FindAllStringSubmatch(string(readme), -1)
		described := map[string]bool{}
		for _, row := range rows {
			described[row[1]] = strings.TrimSpace(row[2]) != ""
		}
		walkValues(values, nil, func(key []string) {
			below, isMap := within(values, key).(map[string]any)
			if isMap && len(below) > 0 && !free(key) {
				return // what is below is described
			}
			if dotted := strings.Join(key, "."); !described[dotted] {
				t.Errorf("the README of chart %s does not describe %s: comment it in values.yaml with \"# --\" and run make generate", name, dotted)
			}
		})
	}
}

// walkValues visits every key but those of what is free in form.
func walkValues(values map[string]any, above []string, visit func(key []string)) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key := append(slices.Clone(above), name)
		visit(key)
		if below, ok := values[name].(map[string]any); ok && !free(key) {
			walkValues(below, key, visit)
		}
	}
}

// free are keys whose content Kubernetes defines.
func free(key []string) bool {
	return slices.Contains([]string{
		"affinity", "dnsConfig", "nodeSelector", "podSecurityContext", "securityContext", "resources", "strategy",
		"probes.startup", "probes.liveness", "probes.readiness", "guard.limits.offloaded", "guard.limits.tenant",
	}, strings.Join(key, "."))
}

// used tells whether a template names a key, from its top or from one that is bound
// to what is above it.
func used(text string, key []string) bool {
	if strings.Contains(text, ".Values."+strings.Join(key, ".")) {
		return true
	}
	last := regexp.QuoteMeta(key[len(key)-1])
	if len(key) == 1 {
		return false
	}
	above := regexp.QuoteMeta(strings.Join(key[:len(key)-1], "."))
	bound := regexp.MustCompile(`(with|:=|index \$?)\s*\$?\.Values\.` + above + `\b`)
	return bound.MatchString(text) && regexp.MustCompile(`(\$\w*\.|[\s(.])`+last+`\b|"`+last+`"`).MatchString(text)
}

// schemaOf finds the schema of a key.
func schemaOf(root map[string]any, key []string) (map[string]any, bool) {
	at := root
	for _, name := range key {
		properties, _ := resolve(root, at)["properties"].(map[string]any)
		below, found := properties[name].(map[string]any)
		if !found {
			return nil, false
		}
		at = below
	}
	return resolve(root, at), true
}

func resolve(root, schema map[string]any) map[string]any {
	ref, isRef := schema["$ref"].(string)
	if !isRef {
		return schema
	}
	definitions, _ := root["$defs"].(map[string]any)
	definition, _ := definitions[path.Base(ref)].(map[string]any)
	return definition
}

func walkSchema(root, schema map[string]any, above []string, visit func(key []string)) {
	properties, _ := resolve(root, schema)["properties"].(map[string]any)
	for name, below := range properties {
		key := append(slices.Clone(above), name)
		if slices.Contains(above, "brokerConfig") || free(above) {
			continue // optional, without a default
		}
		visit(key)
		if m, ok := below.(map[string]any); ok {
			walkSchema(root, m, key, visit)
		}
	}
}

// within gives what stands at a key, nil if nothing does.
func within(values map[string]any, key []string) any {
	var at any = values
	for _, name := range key {
		below, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		if at, ok = below[name]; !ok {
			return nil
		}
	}
	return at
}

// An object of the schema that is not free in form refuses what it does not know.
func TestSchemasAreClosed(t *testing.T) {
	for name, c := range chartsUnderTest {
		schema := read[map[string]any](t, c.files, "values.schema.json", json.Unmarshal)
		var closed func(at string, schema any)
		closed = func(at string, s any) {
			switch s := s.(type) {
			case map[string]any:
				if _, lists := s["properties"].(map[string]any); lists && s["additionalProperties"] != false && s["required"] == nil {
					t.Errorf("chart %s: %s takes unknown keys", name, at)
				}
				for key, below := range s {
					closed(at+"/"+key, below)
				}
			case []any:
				for _, below := range s {
					closed(at, below)
				}
			}
		}
		closed("", schema)
	}
}

// brokerConfig is the spec of a BrokerConfig: what the kind has, the values take.
func TestTheConfigurationIsThatOfTheKind(t *testing.T) {
	schema := read[map[string]any](t, charts.Broker(), "values.schema.json", json.Unmarshal)
	value, found := schemaOf(schema, []string{"brokerConfig"})
	if !found {
		t.Fatal("the schema has no brokerConfig")
	}
	crd := read[map[string]any](t, charts.BrokerCRDs(), "broker.fluidos.eu_brokerconfigs.yaml", yamlStrict)
	versions := crd["spec"].(map[string]any)["versions"].([]any)
	kind := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	spec := kind["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
	for key := range spec {
		if _, found := value["properties"].(map[string]any)[key]; !found {
			t.Errorf("BrokerConfig has spec.%s, brokerConfig does not", key)
		}
	}
}
