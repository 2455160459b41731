package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// Bounds of terms. The schemas contain the same ones.
const (
	maxNamed    = 16
	maxClusters = 64
	maxPods     = 100_000
)

// ToTerms reads the terms of a request from the network. Its error names the field.
func ToTerms(req *v1.ReservationRequest) (terms.Terms, error) {
	out := terms.Terms{Group: req.Group}
	if err := terms.CheckWords("group", maxNamed, req.Group); err != nil && req.Group != "" {
		return terms.Terms{}, err
	}
	var err error
	if out.Constraints, err = toConstraints(req.Constraints); err != nil {
		return terms.Terms{}, fmt.Errorf("constraints.%w", err)
	}
	if out.Pods, err = toPods(req.PodShapes); err != nil {
		return terms.Terms{}, err
	}
	if out.Data, err = toData(req.Data); err != nil {
		return terms.Terms{}, fmt.Errorf("data.%w", err)
	}
	return out, nil
}

func toConstraints(in *v1.Constraints) (*terms.Constraints, error) {
	if in == nil {
		return nil, nil
	}
	err := errors.Join(
		terms.CheckWords("regions", maxNamed, in.Regions...),
		terms.CheckWords("zones", maxNamed, in.Zones...),
		terms.CheckWords("includeClusters", maxClusters, in.IncludeClusters...),
		terms.CheckWords("excludeClusters", maxClusters, in.ExcludeClusters...),
		terms.CheckWords("affinity", maxNamed, in.Affinity...),
		terms.CheckWords("antiAffinity", maxNamed, in.AntiAffinity...),
		terms.CheckLabels("nodeSelector", in.NodeSelector, maxNamed),
	)
	if err == nil && in.DataLocality != "" {
		err = terms.CheckLabels("dataLocality", map[string]string{terms.DataLabel(in.DataLocality): ""}, maxNamed)
	}
	if err != nil {
		return nil, first(err)
	}
	out := &terms.Constraints{
		Regions: in.Regions, Zones: in.Zones, Include: in.IncludeClusters, Exclude: in.ExcludeClusters,
		Nodes: in.NodeSelector, Affinity: in.Affinity, AntiAffinity: in.AntiAffinity, DataSet: in.DataLocality,
	}
	if out.Clusters, err = toSelector(in.ClusterSelector); err != nil {
		return nil, fmt.Errorf("clusterSelector.%w", err)
	}
	if out.Claims, err = toClaims(in.RequiredClaims); err != nil {
		return nil, err
	}
	if in.MaxPrice != nil {
		out.MaxPrice = &terms.Money{Amount: in.MaxPrice.Amount, Currency: in.MaxPrice.Currency}
	}
	return out, nil
}

func toSelector(in *v1.LabelSelector) (*terms.Selector, error) {
	if in == nil {
		return nil, nil
	}
	if err := terms.CheckLabels("matchLabels", in.MatchLabels, maxNamed); err != nil {
		return nil, err
	}
	if err := terms.CheckCount("matchExpressions", len(in.MatchExpressions), maxNamed); err != nil {
		return nil, err
	}
	out := &terms.Selector{Labels: in.MatchLabels}
	for i, e := range in.MatchExpressions {
		field := fmt.Sprintf("matchExpressions[%d]", i)
		if err := terms.CheckLabels(field, map[string]string{e.Key: ""}, maxNamed); err != nil {
			return nil, err
		}
		op := terms.Operator(e.Operator)
		if wants := op == terms.In || op == terms.NotIn; wants != (len(e.Values) > 0) || !slices.Contains([]terms.Operator{terms.In, terms.NotIn, terms.Exists, terms.DoesNotExist}, op) {
			return nil, fmt.Errorf("%s: operator %q with %d values: In and NotIn need values, Exists and DoesNotExist have none", field, message.Clip(string(op), 40), len(e.Values))
		}
		if err := terms.CheckCount(field+".values", len(e.Values), maxNamed); err != nil {
			return nil, err
		}
		out.Expressions = append(out.Expressions, terms.Expression{Key: e.Key, Operator: op, Values: e.Values})
	}
	return out, nil
}

func toClaims(in map[string]string) ([]terms.Claim, error) {
	if err := terms.CheckClaims("requiredClaims", in, maxNamed); err != nil {
		return nil, err
	}
	var out []terms.Claim
	for _, name := range slices.Sorted(maps.Keys(in)) {
		claim, err := terms.ParseClaim(name, in[name])
		if err != nil {
			return nil, fmt.Errorf("requiredClaims[%s]: %w", name, err)
		}
		out = append(out, claim)
	}
	return out, nil
}

func toPods(in []v1.PodShape) ([]terms.Pods, error) {
	if err := terms.CheckCount("podShapes", len(in), maxNamed); err != nil {
		return nil, err
	}
	var out []terms.Pods
	for i, p := range in {
		each, err := ToAmounts(p.Resources)
		switch {
		case err != nil:
			return nil, fmt.Errorf("podShapes[%d]: %w", i, err)
		case each.IsZero():
			return nil, fmt.Errorf("podShapes[%d]: resources: say what a pod requests, for example cpu 500m", i)
		case p.Count < 1 || p.Count > maxPods:
			return nil, fmt.Errorf("podShapes[%d]: count %d must be from 1 to %d", i, p.Count, maxPods)
		}
		out = append(out, terms.Pods{Count: int64(p.Count), Each: each})
	}
	return out, nil
}

func toData(in *v1.DataVolume) (*terms.Data, error) {
	if in == nil {
		return nil, nil
	}
	volume, err := ToAmounts(v1.Amounts{string(corev1.ResourceStorage): in.Volume})
	if err != nil {
		return nil, fmt.Errorf("volume: %w", err)
	}
	if err := terms.CheckWords("region", maxNamed, in.Region); err != nil && in.Region != "" {
		return nil, err
	}
	return &terms.Data{Bytes: volume[corev1.ResourceStorage], Region: in.Region}, nil
}

// FromPods writes pod shapes for the network.
func FromPods(in []terms.Pods) (out []v1.PodShape) {
	for _, p := range in {
		out = append(out, v1.PodShape{Count: int32(p.Count), Resources: FromAmounts(p.Each)})
	}
	return out
}

// FromTerms writes terms into a request; ToTerms reads them again.
func FromTerms(in terms.Terms, out *v1.ReservationRequest) {
	out.Group = in.Group
	if k := in.Constraints; k != nil {
		out.Constraints = fromConstraints(k)
	}
	out.PodShapes = FromPods(in.Pods)
	if d := in.Data; d != nil {
		out.Data = &v1.DataVolume{Volume: quantity.Format(corev1.ResourceStorage, d.Bytes), Region: d.Region}
	}
}

func fromConstraints(k *terms.Constraints) *v1.Constraints {
	out := &v1.Constraints{
		Regions: k.Regions, Zones: k.Zones, IncludeClusters: k.Include, ExcludeClusters: k.Exclude,
		NodeSelector: k.Nodes, Affinity: k.Affinity, AntiAffinity: k.AntiAffinity, DataLocality: k.DataSet,
	}
	if s := k.Clusters; s != nil {
		out.ClusterSelector = &v1.LabelSelector{MatchLabels: s.Labels}
		for _, e := range s.Expressions {
			out.ClusterSelector.MatchExpressions = append(out.ClusterSelector.MatchExpressions,
				v1.LabelExpression{Key: e.Key, Operator: v1.LabelExpressionOperator(e.Operator), Values: e.Values})
		}
	}
	for _, c := range k.Claims {
		if out.RequiredClaims == nil {
			out.RequiredClaims = map[string]string{}
		}
		out.RequiredClaims[c.Name] = c.String()
	}
	if k.MaxPrice != nil {
		out.MaxPrice = &v1.Money{Amount: k.MaxPrice.Amount, Currency: k.MaxPrice.Currency}
	}
	return out
}

// first returns the first of several joined errors, so that a message names one remedy.
func first(joined error) error {
	if all, ok := joined.(interface{ Unwrap() []error }); ok && len(all.Unwrap()) > 0 {
		return all.Unwrap()[0]
	}
	return joined
}
