package autoscaling

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// The shortest and longest values of duration and queueTimeout, as in the schema of ResourceRequest.
const (
	shortestDuration, shortestTimeout = time.Minute, time.Second
	longestDuration                   = 87600 * time.Hour
)

// maxPriority is the highest priority of a ResourceRequest.
const maxPriority = 1_000_000

// setters maps the name of each parameter to a function that writes its value into the field of the same name, in the
// spec of a ResourceRequest or in its constraints. The error of a setter completes a sentence whose subject is the
// value.
var setters = map[string]func(spec *agentv1alpha1.ResourceRequestSpec, value string) error{
	"duration": func(spec *agentv1alpha1.ResourceRequestSpec, value string) (err error) {
		spec.Duration, err = parseDuration(value, shortestDuration)
		return err
	},
	"priority": func(spec *agentv1alpha1.ResourceRequestSpec, value string) error {
		priority, err := strconv.ParseInt(value, 10, 32)
		if err != nil || priority < 0 || priority > maxPriority {
			return fmt.Errorf("is not a priority: write a whole number from 0 to %d", maxPriority)
		}
		spec.Priority = int32(priority)
		return nil
	},
	"queuePolicy": func(spec *agentv1alpha1.ResourceRequestSpec, value string) error {
		spec.QueuePolicy = brokerv1alpha1.QueuePolicy(value)
		return checkOneOf(spec.QueuePolicy, brokerv1alpha1.QueuePolicyFail, brokerv1alpha1.QueuePolicyQueue)
	},
	"queueTimeout": func(spec *agentv1alpha1.ResourceRequestSpec, value string) (err error) {
		spec.QueueTimeout, err = parseDuration(value, shortestTimeout)
		return err
	},
	"healing": func(spec *agentv1alpha1.ResourceRequestSpec, value string) error {
		spec.Healing = brokerv1alpha1.Healing(value)
		return checkOneOf(spec.Healing, brokerv1alpha1.HealingMigrate, brokerv1alpha1.HealingWait)
	},
	"group": func(spec *agentv1alpha1.ResourceRequestSpec, value string) error {
		spec.Group = value
		return nil
	},
	"regions":         constrainList(func(c *brokerv1alpha1.Constraints) *[]string { return &c.Regions }),
	"zones":           constrainList(func(c *brokerv1alpha1.Constraints) *[]string { return &c.Zones }),
	"includeClusters": constrainList(func(c *brokerv1alpha1.Constraints) *[]string { return &c.IncludeClusters }),
	"excludeClusters": constrainList(func(c *brokerv1alpha1.Constraints) *[]string { return &c.ExcludeClusters }),
	"affinity":        constrainList(func(c *brokerv1alpha1.Constraints) *[]string { return &c.Affinity }),
	"antiAffinity":    constrainList(func(c *brokerv1alpha1.Constraints) *[]string { return &c.AntiAffinity }),
	"dataLocality": constrain(func(c *brokerv1alpha1.Constraints, value string) error {
		c.DataLocality = value
		return nil
	}),
	"clusterSelector": constrain(func(c *brokerv1alpha1.Constraints, value string) (err error) {
		c.ClusterSelector, err = parseSelector(value)
		return err
	}),
	"nodeSelector": constrain(func(c *brokerv1alpha1.Constraints, value string) (err error) {
		c.NodeSelector, err = parseLabels(value)
		return err
	}),
	"requiredClaims": constrain(func(c *brokerv1alpha1.Constraints, value string) (err error) {
		c.RequiredClaims, err = parseLabels(value)
		return err
	}),
	"maxPrice": constrain(func(c *brokerv1alpha1.Constraints, value string) error {
		match := money.FindStringSubmatch(value)
		if match == nil {
			return errors.New(`is not a price per hour: write an amount and a currency, for example "1.50 EUR"`)
		}
		c.MaxPrice = &brokerv1alpha1.Money{Amount: brokerv1alpha1.Price(match[1]), Currency: match[2]}
		return nil
	}),
}

var money = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,9})?) ([A-Z]{3})$`)

// RequestSpec returns the spec of the ResourceRequest that the given pods need. The error lists everything that is
// wrong with pods and parameters.
func RequestSpec(pods []Pods, parameters map[string]Parameter) (agentv1alpha1.ResourceRequestSpec, error) {
	spec := agentv1alpha1.ResourceRequestSpec{}
	shapes, err := PodShapes(pods)
	spec.PodShapes = shapes
	all := []error{err}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		value := strings.TrimSpace(string(parameters[name]))
		set, known := setters[name]
		if !known {
			all = append(all, fmt.Errorf("parameter %q is unknown: use %s", name, strings.Join(slices.Sorted(maps.Keys(setters)), ", ")))
			continue
		}
		if err := set(&spec, value); err != nil {
			all = append(all, fmt.Errorf("parameter %q: %q %w", name, value, err))
		}
	}
	if spec.QueueTimeout != nil && spec.QueuePolicy != brokerv1alpha1.QueuePolicyQueue {
		all = append(all, fmt.Errorf(`parameter "queueTimeout": %q has no effect without queuePolicy=Queue: set that too, or leave queueTimeout out`, parameters["queueTimeout"]))
	}
	if err := errors.Join(all...); err != nil {
		return spec, err
	}
	// Without this check, the schema of ResourceRequest would refuse such values, with names of fields that the user
	// did not write.
	_, err = requirements.Read(&spec.Requirements)
	return spec, err
}

// constrain turns a setter of a field of the constraints into a setter of the spec. It creates the constraints if the
// spec has none.
func constrain(set func(c *brokerv1alpha1.Constraints, value string) error) func(*agentv1alpha1.ResourceRequestSpec, string) error {
	return func(spec *agentv1alpha1.ResourceRequestSpec, value string) error {
		if spec.Constraints == nil {
			spec.Constraints = &brokerv1alpha1.Constraints{}
		}
		return set(spec.Constraints, value)
	}
}

// constrainList returns a setter that writes names separated by commas into a list of the constraints. It refuses empty
// names.
func constrainList(field func(c *brokerv1alpha1.Constraints) *[]string) func(*agentv1alpha1.ResourceRequestSpec, string) error {
	return constrain(func(c *brokerv1alpha1.Constraints, value string) error {
		words := strings.Split(value, ",")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
			if words[i] == "" {
				return errors.New("has an empty entry: write names separated by commas")
			}
		}
		*field(c) = words
		return nil
	})
}

func checkOneOf[Word ~string](word, one, other Word) error {
	if word != one && word != other {
		return fmt.Errorf("is unknown: use %s or %s", one, other)
	}
	return nil
}

func parseDuration(value string, shortest time.Duration) (*metav1.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < shortest || d > longestDuration {
		return nil, fmt.Errorf("is not a duration from %s to 87600h: write for example 2h30m", shortest)
	}
	return &metav1.Duration{Duration: d}, nil
}

// parseLabels parses key=value pairs that are separated by commas. The value begins after the first equals sign.
func parseLabels(value string) (map[string]brokerv1alpha1.LabelValue, error) {
	out := map[string]brokerv1alpha1.LabelValue{}
	for pair := range strings.SplitSeq(value, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || key == "" {
			return nil, fmt.Errorf("has %q where KEY=VALUE must be: separate pairs by commas", pair)
		}
		out[key] = brokerv1alpha1.LabelValue(value)
	}
	return out, nil
}

// operators maps the operators of a label selector to those of a LabelExpression.
var operators = map[selection.Operator]string{
	selection.Equals: "In", selection.DoubleEquals: "In", selection.In: "In",
	selection.NotEquals: "NotIn", selection.NotIn: "NotIn",
	selection.Exists: "Exists", selection.DoesNotExist: "DoesNotExist",
}

// parseSelector parses a label selector as kubectl --selector does, but refuses < and >, which a LabelExpression does
// not have.
func parseSelector(value string) (*brokerv1alpha1.ClusterSelector, error) {
	all, err := labels.ParseToRequirements(value)
	if err != nil {
		return nil, fmt.Errorf("is not a label selector: write for example tier=gold,gpu: %w", err)
	}
	selector := &brokerv1alpha1.ClusterSelector{}
	for _, one := range all {
		operator, known := operators[one.Operator()]
		if !known {
			return nil, fmt.Errorf("has operator %q: use =, !=, in, notin or the key alone", one.Operator())
		}
		expression := brokerv1alpha1.LabelExpression{Key: one.Key(), Operator: operator}
		if values := one.ValuesUnsorted(); len(values) > 0 {
			slices.Sort(values)
			expression.Values = values
		}
		selector.MatchExpressions = append(selector.MatchExpressions, expression)
	}
	return selector, nil
}
