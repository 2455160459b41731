package gitops

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

// repository is the Git repository that Argo CD syncs from: the charts and the manifests of this checkout, at the
// same paths.
type repository struct{ dir string }

// Paths in the repository.
const (
	appsPath     = "hack/gitops/argocd/apps"
	requestsPath = "hack/gitops/requests"
	rootPath     = "hack/gitops/argocd/root.yaml"
)

// shipped are the folders of the checkout that the repository contains.
var shipped = []string{"charts/broker", "charts/agent", "hack/gitops/argocd", requestsPath}

// firstVersion is the version of the charts and the tag, with a v before it, that the Applications name at first.
const firstVersion = "0.1.0"

// newRepository returns a repository whose Applications use it as their only source. Its only commit is the release of
// firstVersion.
func newRepository(t *testing.T, checkout string) *repository {
	t.Helper()
	r := &repository{dir: t.TempDir()}
	for _, folder := range shipped {
		e2etest.Check(t, os.CopyFS(r.path(folder), os.DirFS(filepath.Join(checkout, folder))))
	}
	r.git(t, "init", "--quiet", "--initial-branch=main")
	r.editFile(t, rootPath, r.useAsSource)
	apps, err := filepath.Glob(r.path(appsPath, "*.yaml"))
	e2etest.Check(t, err)
	for _, app := range apps {
		r.editFile(t, filepath.Join(appsPath, filepath.Base(app)), r.useAsSource)
	}
	r.releaseCharts(t, firstVersion)
	return r
}

// releaseCharts commits both charts with a version and tags the commit.
func (r *repository) releaseCharts(t *testing.T, version string) {
	t.Helper()
	for _, folder := range chartPaths {
		r.editFile(t, filepath.Join(folder, "Chart.yaml"), func(chart map[string]any) {
			chart["version"], chart["appVersion"] = version, version
		})
	}
	r.commit(t, "release "+version)
	r.git(t, "tag", "v"+version)
}

func (r *repository) path(elements ...string) string {
	return filepath.Join(append([]string{r.dir}, elements...)...)
}

func (r *repository) url() string { return "file://" + r.dir }

// git runs a command of git in the repository.
func (r *repository) git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, bytes.TrimSpace(out))
	}
}

func (r *repository) commit(t *testing.T, subject string) {
	t.Helper()
	r.git(t, "add", "--all")
	r.git(t, "commit", "--quiet", "--message", subject)
}

// editFile changes the object in a file.
func (r *repository) editFile(t *testing.T, name string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(r.path(name))
	e2etest.Check(t, err)
	var object map[string]any
	e2etest.Check(t, yaml.Unmarshal(text, &object))
	change(object)
	text, err = yaml.Marshal(object)
	e2etest.Check(t, err)
	e2etest.Check(t, os.WriteFile(r.path(name), text, 0o644))
}

// removeFile deletes a file and returns its content.
func (r *repository) removeFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(r.path(name))
	e2etest.Check(t, err)
	e2etest.Check(t, os.Remove(r.path(name)))
	return text
}

func (r *repository) writeFile(t *testing.T, name string, text []byte) {
	t.Helper()
	e2etest.Check(t, os.WriteFile(r.path(name), text, 0o644))
}

// chartPaths are the folders of the charts that releases publish to a registry.
var chartPaths = map[string]string{
	"liqo-resource-broker": "charts/broker", "liqo-resource-broker-agent": "charts/agent",
}

// useAsSource makes the repository the source of every Application in an object: main stays main, and versions of the
// product become the tag of firstVersion.
func (r *repository) useAsSource(object map[string]any) {
	if _, isSource := object["repoURL"]; isSource {
		object["repoURL"] = r.url()
		if object["targetRevision"] != "main" {
			object["targetRevision"] = "v" + firstVersion
		}
		if name, ok := object["chart"].(string); ok {
			delete(object, "chart")
			object["path"] = chartPaths[name]
		}
	}
	for _, value := range object {
		if inner, ok := value.(map[string]any); ok {
			r.useAsSource(inner)
		}
	}
}

// sourceOf returns the source of an Application, or of the template of an ApplicationSet.
func sourceOf(object map[string]any) map[string]any {
	spec := object["spec"].(map[string]any)
	if template, ok := spec["template"].(map[string]any); ok {
		spec = template["spec"].(map[string]any)
	}
	return spec["source"].(map[string]any)
}

// valuesOf returns the Helm values in the source of an Application or ApplicationSet.
func valuesOf(object map[string]any) map[string]any {
	return sourceOf(object)["helm"].(map[string]any)["valuesObject"].(map[string]any)
}
