package requirements

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Limits of requirements: the entries of a list or map, the clusters in a list, and the pods of a
// shape. The schemas of the CRDs contain the same limits.
const (
	maxNamed    = 16
	maxClusters = 64
	maxPods     = 100_000
)

// Read checks requirements and returns a copy of them. Quantities are in canonical form in
// the copy, so that requirements with the same meaning have the same digest. The error names
// the field.
func Read(in *brokerv1alpha1.Requirements) (brokerv1alpha1.Requirements, error) {
	none := brokerv1alpha1.Requirements{}
	out := brokerv1alpha1.Requirements{Group: in.Group, Constraints: in.Constraints.DeepCopy()}
	if err := CheckWords("group", maxNamed, in.Group); err != nil && in.Group != "" {
		return none, err
	}
	if err := checkConstraints(in.Constraints); err != nil {
		return none, fmt.Errorf("constraints.%w", err)
	}
	var err error
	if out.PodShapes, err = readPodShapes(in.PodShapes); err != nil {
		return none, err
	}
	if out.Data, err = readData(in.Data); err != nil {
		return none, fmt.Errorf("data.%w", err)
	}
	return out, nil
}

func checkConstraints(k *brokerv1alpha1.Constraints) error {
	if k == nil {
		return nil
	}
	err := errors.Join(
		CheckWords("regions", maxNamed, k.Regions...),
		CheckWords("zones", maxNamed, k.Zones...),
		CheckWords("includeClusters", maxClusters, k.IncludeClusters...),
		CheckWords("excludeClusters", maxClusters, k.ExcludeClusters...),
		CheckWords("affinity", maxNamed, k.Affinity...),
		CheckWords("antiAffinity", maxNamed, k.AntiAffinity...),
		CheckLabels("nodeSelector", k.NodeSelector, maxNamed),
		checkTolerations(k.Tolerations),
	)
	if err == nil && k.DataLocality != "" {
		err = CheckLabels("dataLocality", map[string]string{DataLabel(k.DataLocality): ""}, maxNamed)
	}
	if err != nil {
		return firstError(err)
	}
	if err := checkSelector(k.ClusterSelector); err != nil {
		return fmt.Errorf("clusterSelector.%w", err)
	}
	return checkRequiredClaims(k.RequiredClaims)
}

func checkSelector(s *brokerv1alpha1.ClusterSelector) error {
	if s == nil {
		return nil
	}
	if err := CheckLabels("matchLabels", s.MatchLabels, maxNamed); err != nil {
		return err
	}
	if err := CheckCount("matchExpressions", len(s.MatchExpressions), maxNamed); err != nil {
		return err
	}
	for i, e := range s.MatchExpressions {
		field := fmt.Sprintf("matchExpressions[%d]", i)
		if err := CheckLabels(field, map[string]string{e.Key: ""}, maxNamed); err != nil {
			return err
		}
		if wants := e.Operator == In || e.Operator == NotIn; wants != (len(e.Values) > 0) || !slices.Contains([]string{In, NotIn, Exists, DoesNotExist}, e.Operator) {
			return fmt.Errorf("%s: operator %q with %d values: In and NotIn need values, Exists and DoesNotExist have none", field, message.Clip(e.Operator, 40), len(e.Values))
		}
		if err := CheckCount(field+".values", len(e.Values), maxNamed); err != nil {
			return err
		}
	}
	return nil
}

func checkRequiredClaims(required map[string]brokerv1alpha1.LabelValue) error {
	if err := CheckClaims("requiredClaims", required, maxNamed); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if _, err := ParseClaim(string(required[name])); err != nil {
			return fmt.Errorf("requiredClaims[%s]: %w", name, err)
		}
	}
	return nil
}

func readPodShapes(in []brokerv1alpha1.PodShape) ([]brokerv1alpha1.PodShape, error) {
	if err := CheckCount("podShapes", len(in), maxNamed); err != nil {
		return nil, err
	}
	var out []brokerv1alpha1.PodShape
	for i, p := range in {
		each, err := readPodAmounts(p.Resources)
		switch {
		case err != nil:
			return nil, fmt.Errorf("podShapes[%d]: %w", i, err)
		case each.IsZero():
			return nil, fmt.Errorf("podShapes[%d]: resources: say what a pod requests, for example cpu 500m", i)
		case p.Count < 1 || p.Count > maxPods:
			return nil, fmt.Errorf("podShapes[%d]: count %d must be from 1 to %d", i, p.Count, maxPods)
		}
		out = append(out, brokerv1alpha1.PodShape{Count: p.Count, Resources: brokerv1alpha1.PodResources(each.ToResourceList())})
	}
	return out, nil
}

func readPodAmounts(in brokerv1alpha1.PodResources) (quantity.Amounts, error) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if problems := validation.IsQualifiedName(string(name)); len(problems) > 0 {
			return nil, fmt.Errorf("resource %q is not a resource name: %s", message.Clip(string(name), 80), problems[0])
		}
	}
	return quantity.FromResourceList(corev1.ResourceList(in))
}

func readData(in *brokerv1alpha1.DataVolume) (*brokerv1alpha1.DataVolume, error) {
	if in == nil {
		return nil, nil
	}
	volume, err := quantity.FromResourceList(corev1.ResourceList{corev1.ResourceStorage: in.Volume})
	if err != nil {
		return nil, fmt.Errorf("volume: %w", err)
	}
	if err := CheckWords("region", maxNamed, in.Region); err != nil && in.Region != "" {
		return nil, err
	}
	bytes := volume[corev1.ResourceStorage]
	return &brokerv1alpha1.DataVolume{Volume: quantity.ToQuantity(corev1.ResourceStorage, bytes), Region: in.Region}, nil
}

// firstError returns the first of several joined errors, so that a message describes only
// one problem.
func firstError(joined error) error {
	if all, ok := joined.(interface{ Unwrap() []error }); ok && len(all.Unwrap()) > 0 {
		return all.Unwrap()[0]
	}
	return joined
}
