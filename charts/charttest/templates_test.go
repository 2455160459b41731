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
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// joinTemplates returns all templates of a chart as one text.
func joinTemplates(t *testing.T, files fs.FS) string {
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
	runtest.Check(t, err)
	return all.String()
}

func read[T any](t *testing.T, files fs.FS, name string, parse func([]byte, any) error) T {
	t.Helper()
	text, err := fs.ReadFile(files, name)
	runtest.Check(t, err)
	var out T
	runtest.Check(t, parse(text, &out))
	return out
}

func yamlStrict(text []byte, out any) error { return yaml.UnmarshalStrict(text, out) }

// Rendering must depend only on the values.
func TestTemplatesAreDeterministic(t *testing.T) {
	forbidden := regexp.MustCompile(`\b(lookup|gen(CA|SelfSigned|Signed|PrivateKey)\w*|rand(Alpha|AlphaNum|Numeric|Ascii|Int|Bytes)|uuidv4|now|ago|htpasswd|bcrypt|derivePassword|encryptAES|shuffle|getHostByName)\b`)
	actions := regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	comments := regexp.MustCompile(`(?s)\{\{-?\s*/\*.*?\*/\s*-?\}\}`)
	quoted := regexp.MustCompile(`"[^"]*"`)
	for name, c := range chartsUnderTest {
		text := comments.ReplaceAllString(joinTemplates(t, c.files), "")
		for _, action := range actions.FindAllString(text, -1) {
			if found := forbidden.FindString(quoted.ReplaceAllString(action, "")); found != "" {
				t.Errorf("chart %s uses %s in %s: Argo CD would never be in sync", name, found, action)
			}
		}
	}
}

// Every key of the values is used by a template and is in the schema. The schema has no other keys.
func TestValuesAreUsedAndInTheSchema(t *testing.T) {
	for name, c := range chartsUnderTest {
		t.Run(name, func(t *testing.T) {
			text := joinTemplates(t, c.files)
			values := read[map[string]any](t, c.files, "values.yaml", yamlStrict)
			schema := read[map[string]any](t, c.files, "values.schema.json", json.Unmarshal)
			walkValues(values, nil, func(key []string) {
				if !isUsed(text, key) {
					t.Errorf("%s is in values.yaml, and no template reads it", strings.Join(key, "."))
				}
				if _, found := schemaOf(schema, key); !found {
					t.Errorf("%s is in values.yaml, and not in the schema", strings.Join(key, "."))
				}
			})
			walkSchema(schema, schema, nil, func(key []string) {
				if key[0] == "global" {
					return // defined by Helm
				}
				if valueAt(values, key) == nil {
					t.Errorf("%s is in the schema, and not in values.yaml", strings.Join(key, "."))
				}
			})
		})
	}
}

// The README has a row with a description for every value.
func TestValuesAreDocumented(t *testing.T) {
	for name, c := range chartsUnderTest {
		values := read[map[string]any](t, c.files, "values.yaml", yamlStrict)
		readme, err := fs.ReadFile(c.files, "README.md")
		runtest.Check(t, err)
		rows := regexp.MustCompile(`(?m)^\| (\S+) \| .* \| (.*) \|$`).FindAllStringSubmatch(string(readme), -1)
		described := map[string]bool{}
		for _, row := range rows {
			described[row[1]] = strings.TrimSpace(row[2]) != ""
		}
		walkValues(values, nil, func(key []string) {
			below, isMap := valueAt(values, key).(map[string]any)
			if isMap && len(below) > 0 && !isFreeForm(key) {
				return // instead of this key, the README describes the keys below it
			}
			if dotted := strings.Join(key, "."); !described[dotted] {
				t.Errorf("the README of chart %s does not describe %s: comment it in values.yaml with \"# --\" and run make generate", name, dotted)
			}
		})
	}
}

// The charts accept every example of values in their READMEs.
func TestExamplesInREADMEsRender(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for name, c := range chartsUnderTest {
		readme, err := fs.ReadFile(c.files, "README.md")
		runtest.Check(t, err)
		found := examples.FindAllStringSubmatch(string(readme), -1)
		if len(found) == 0 {
			t.Errorf("the README of chart %s has no example of values", name)
		}
		for _, example := range found {
			if _, err := render(t, c, chart.Release{Name: c.release, Namespace: namespace}, example[1]); err != nil {
				t.Errorf("chart %s with\n%s%v", name, example[1], err)
			}
		}
	}
}

// walkValues visits every key, except below free-form keys.
func walkValues(values map[string]any, above []string, visit func(key []string)) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key := append(slices.Clone(above), name)
		visit(key)
		if below, ok := values[name].(map[string]any); ok && !isFreeForm(key) {
			walkValues(below, key, visit)
		}
	}
}

// isFreeForm reports whether Kubernetes defines the content of a key.
func isFreeForm(key []string) bool {
	return slices.Contains([]string{
		"affinity", "dnsConfig", "nodeSelector", "podSecurityContext", "securityContext", "resources", "strategy",
		"probes.startup", "probes.liveness", "probes.readiness", "guard.limits.offloaded", "guard.limits.tenant",
	}, strings.Join(key, "."))
}

// isUsed reports whether a template names a key, by its full path or relative to a variable.
func isUsed(text string, key []string) bool {
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

// schemaOf returns the schema of a key.
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
		if slices.Contains(above, "brokerConfig") || isFreeForm(above) {
			continue // optional, without a default
		}
		visit(key)
		if m, ok := below.(map[string]any); ok {
			walkSchema(root, m, key, visit)
		}
	}
}

// valueAt returns the value of a key, nil if there is none.
func valueAt(values map[string]any, key []string) any {
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

// Objects in the schema refuse unknown keys, unless they are free-form.
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

// The value brokerConfig accepts every field of a BrokerConfig's spec.
func TestBrokerConfigValueMatchesTheCRD(t *testing.T) {
	schema := read[map[string]any](t, charts.Broker(), "values.schema.json", json.Unmarshal)
	value, found := schemaOf(schema, []string{"brokerConfig"})
	if !found {
		t.Fatal("the schema has no brokerConfig")
	}
	crd := read[map[string]any](t, charts.Broker(), "files/crds/broker.fluidos.eu_brokerconfigs.yaml", yamlStrict)
	versions := crd["spec"].(map[string]any)["versions"].([]any)
	kind := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	spec := kind["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
	for key := range spec {
		if _, found := value["properties"].(map[string]any)[key]; !found {
			t.Errorf("BrokerConfig has spec.%s, brokerConfig does not", key)
		}
	}
}
