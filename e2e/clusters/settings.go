package clusters

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Environment variables that say where to run. "make e2e" sets them.
const (
	// kubeconfigVariable names the kubeconfig with a context for each cluster. Without
	// it there is nothing to run on.
	kubeconfigVariable = "E2E_KUBECONFIG"
	// brokerVariable is the context of the broker's cluster; kind-broker by default.
	brokerVariable = "E2E_BROKER"
	// membersVariable lists members as ID=context, separated by commas; by default
	// rome=kind-rome,paris=kind-paris.
	membersVariable = "E2E_MEMBERS"
	// repositoryVariable is what the names of the product's images begin with; what
	// the charts say by default.
	repositoryVariable = "E2E_REPOSITORY"
	// tagVariable is the tag of the product's images; what the charts say by default.
	tagVariable = "E2E_TAG"
	// previousTagVariable and previousChartsVariable are the tag of the images and the
	// folder with the charts of an earlier version, from which an upgrade is tested.
	previousTagVariable    = "E2E_PREVIOUS_TAG"
	previousChartsVariable = "E2E_PREVIOUS_CHARTS"
)

// Version is a version of the product to install.
type Version struct {
	// Charts is the folder with the charts broker and agent.
	Charts string
	// Tag of the images; the charts' own if empty.
	Tag string
}

// Settings say which clusters to use and what to install in them.
type Settings struct {
	Kubeconfig string
	// Broker is the context of the broker's cluster, Members those of the others by
	// cluster ID.
	Broker  string
	Members map[string]string
	// Repository is what images' names begin with; the charts' own if empty.
	Repository string
	// Version is what is tested, Previous what an upgrade begins with; nil if there is
	// no earlier version.
	Version  Version
	Previous *Version
	// Progress is told about the steps; nobody if nil.
	Progress progress.Reporter

	tools *toolchain.Toolchain
}

// FromEnvironment reads the settings from the variables above.
func FromEnvironment(report progress.Reporter) (s Settings, err error) {
	s.Kubeconfig, s.Progress = os.Getenv(kubeconfigVariable), report
	if s.Kubeconfig == "" {
		return s, fmt.Errorf("%s names no kubeconfig: run make e2e, which makes clusters", kubeconfigVariable)
	}
	s.Broker = cmp.Or(os.Getenv(brokerVariable), "kind-broker")
	s.Members = map[string]string{}
	for pair := range strings.SplitSeq(cmp.Or(os.Getenv(membersVariable), "rome=kind-rome,paris=kind-paris"), ",") {
		id, context, found := strings.Cut(pair, "=")
		if !found {
			return s, fmt.Errorf("%s: %q is not ID=context", membersVariable, pair)
		}
		s.Members[id] = context
	}
	if s.tools, err = toolchain.New(s.Progress); err != nil {
		return s, err
	}
	s.Repository = os.Getenv(repositoryVariable)
	s.Version = Version{Charts: filepath.Join(s.tools.Root(), "charts"), Tag: os.Getenv(tagVariable)}
	if charts := os.Getenv(previousChartsVariable); charts != "" {
		s.Previous = &Version{Charts: charts, Tag: os.Getenv(previousTagVariable)}
	}
	return s, nil
}
