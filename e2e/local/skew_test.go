package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
)

// TestAgentsOfOtherVersionsWork lets an agent one minor version newer than the broker borrow from
// an agent one minor version older.
func TestAgentsOfOtherVersionsWork(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	useMinor(t, env, "rome", v1.Minor+1)
	useMinor(t, env, "paris", v1.Minor-1)

	r, err := rome.Request(t.Context(), namespace, "across-versions", small(), func(s *agentv1alpha1.ResourceRequestSpec) {
		s.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}
	})
	check(t, err)
	check(t, rome.AwaitReady(t.Context(), r, readyWithin))
	check(t, run(t, env, rome, r).Unchanged(t.Context()))
	check(t, rome.DeleteDeployments(t.Context(), namespace))
	check(t, rome.DeleteAndWait(t.Context(), r, patience))
	check(t, env.AwaitHeld(t.Context(), "rome", 0, readyWithin))
}

// useMinor upgrades a member's release to an agent of another minor version until the test ends.
func useMinor(t *testing.T, env *Environment, clusterID string, minor int) {
	t.Helper()
	tag := fmt.Sprintf("v0.%d", minor)
	env.Product.Release(clusterID).Provide(tag, release.Program{Path: agentOf(t, minor)})
	before, values := env.Product.Values(clusterID), env.Product.Values(clusterID)
	values["image"] = map[string]any{"tag": tag}
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), clusterID, before)) })
	check(t, env.Product.Upgrade(t.Context(), clusterID, values))
	check(t, awaitOwnCondition(t.Context(), env.Member(clusterID), patience, agentv1alpha1.ConditionBrokerCompatible, metav1.ConditionTrue,
		fmt.Sprintf("the broker speaks v1.%d of the API, this agent v1.%d", v1.Minor, minor)))
}

// agentOf builds the agent with another minor version, and returns the path of the binary.
func agentOf(t *testing.T, minor int) string {
	t.Helper()
	source, err := filepath.Abs("../../api/rest/v1/doc.go")
	check(t, err)
	text, err := os.ReadFile(source)
	check(t, err)
	now, then := fmt.Sprintf("const Minor = %d\n", v1.Minor), fmt.Sprintf("const Minor = %d\n", minor)
	if strings.Count(string(text), now) != 1 {
		t.Fatalf("%s has no line %q", source, now)
	}
	dir := t.TempDir()
	other, overlay, agent := filepath.Join(dir, "doc.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "agent")
	check(t, os.WriteFile(other, []byte(strings.Replace(string(text), now, then, 1)), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: other}})
	check(t, err)
	check(t, os.WriteFile(overlay, replace, 0o600))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", agent, "../../cmd/agent").CombinedOutput(); err != nil {
		t.Fatalf("building an agent of minor version %d: %v\n%s", minor, err, out)
	}
	return agent
}
