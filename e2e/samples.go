package e2e

import (
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/config"
)

// ShippedSamples returns the samples in the folder config/samples.
func ShippedSamples() (Samples, error) {
	var s Samples
	for name, into := range map[string]*[]byte{
		"agent_v1alpha1_resourcerequest.yaml":          &s.Request,
		"agent_v1alpha1_resourcerequest_gpu.yaml":      &s.GPURequest,
		"agent_v1alpha1_resourcerequest_toolarge.yaml": &s.LargeRequest,
		"apps_v1_deployment_pinned.yaml":               &s.Deployment,
	} {
		text, err := config.Samples.ReadFile("samples/" + name)
		if err != nil {
			return s, fmt.Errorf("sample: %w", err)
		}
		*into = text
	}
	return s, nil
}
