package charttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Agent and broker compare the API's minor version. A release with an outdated one would be taken for the previous
// release.
func TestAPIMinorVersionMatchesTheCharts(t *testing.T) {
	for _, name := range []string{"broker", "agent"} {
		text, err := os.ReadFile(filepath.Join("..", name, "Chart.yaml"))
		runtest.Check(t, err)
		var chart struct{ Version, AppVersion string }
		runtest.Check(t, yaml.Unmarshal(text, &chart))
		for _, version := range []string{chart.Version, strings.TrimPrefix(chart.AppVersion, "v")} {
			if want := fmt.Sprintf("0.%d.", v1.Minor); !strings.HasPrefix(version, want) {
				t.Errorf("chart %s has version %s, the API minor version %d", name, version, v1.Minor)
			}
		}
	}
}
