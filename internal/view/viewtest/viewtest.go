// Package viewtest provides objects of a broker's cluster and of a member, for tests of programs that show them.
package viewtest

import (
	"embed"
	"strings"
	"testing"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

//go:embed *.yaml
var files embed.FS

// Broker returns the objects of a broker's cluster: two providers, a served and a waiting reservation, and objects of a
// user alice in namespace team. Their times are minutes before now.
func Broker(t testing.TB, now time.Time) []*unstructured.Unstructured {
	t.Helper()
	return read(t, "broker.yaml", now)
}

// Member returns the objects of a member that has a request whose pods are rejected.
func Member(t testing.TB, now time.Time) []*unstructured.Unstructured {
	t.Helper()
	return read(t, "member.yaml", now)
}

func read(t testing.TB, file string, now time.Time) []*unstructured.Unstructured {
	t.Helper()
	functions := template.FuncMap{
		"ago":         func(minutes int) string { return now.Add(-time.Duration(minutes) * time.Minute).Format(time.RFC3339) },
		"fingerprint": func() string { return strings.Repeat("9f2c", 16) },
	}
	parsed, err := template.New(file).Funcs(functions).ParseFS(files, file)
	runtest.Check(t, err)
	var filled strings.Builder
	runtest.Check(t, parsed.Execute(&filled, nil))
	objects, err := manifest.Read([]byte(filled.String()))
	runtest.Check(t, err)
	return objects
}
