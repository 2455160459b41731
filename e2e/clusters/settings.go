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

// Names of the environment variables with the settings. "make e2e" sets these variables.
const (
	// kubeconfigVariable is the path of a kubeconfig with a context for each cluster. It is required.
	kubeconfigVariable = "E2E_KUBECONFIG"
	// brokerVariable is the context of the broker's cluster. Default: kind-broker.
	brokerVariable = "E2E_BROKER"
	// membersVariable lists the members as ID=context, separated by commas. Default:
	// rome=kind-rome,paris=kind-paris.
	membersVariable = "E2E_MEMBERS"
	// repositoryVariable is the prefix of the names of the product's images. By default, the charts decide.
	repositoryVariable = "E2E_REPOSITORY"
	// tagVariable is the tag of the product's images. By default, the charts decide.
	tagVariable = "E2E_TAG"
	// previousTagVariable is the image tag of an earlier version, and previousChartsVariable the folder with its
	// charts. The tests upgrade from this version.
	previousTagVariable    = "E2E_PREVIOUS_TAG"
	previousChartsVariable = "E2E_PREVIOUS_CHARTS"
)

// Version is a version of the product that can be installed.
type Version struct {
	// Charts is the path of the folder that contains the charts broker and agent.
	Charts string
	// Tag is the tag of the images. If it is empty, the charts decide.
	Tag string
}

// Settings say which clusters are used and which versions are installed.
type Settings struct {
	Kubeconfig string
	// Broker is the context of the broker's cluster. Members maps the IDs of the members to their contexts.
	Broker  string
	Members map[string]string
	// Repository is the prefix of the names of the images. If it is empty, the charts decide.
	Repository string
	// Version is the version that is tested. Previous is the version from which the tests upgrade. It is nil if
	// there is none.
	Version  Version
	Previous *Version
	// Progress receives the steps of the installation. If it is nil, they are discarded.
	Progress progress.Reporter

	tools *toolchain.Toolchain
}

// FromEnvironment reads the settings from environment variables.
func FromEnvironment(report progress.Reporter) (s Settings, err error) {
	s.Kubeconfig, s.Progress = os.Getenv(kubeconfigVariable), report
	if s.Kubeconfig == "" {
		return s, fmt.Errorf("%s is not set: run make e2e, which creates clusters", kubeconfigVariable)
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
