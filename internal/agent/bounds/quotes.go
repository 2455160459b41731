package bounds

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// AddQuotes returns the requests and, for each Quote that may hold capacity, one more request for the same capacity. It
// leaves out the Quote with the name except, and every Quote that one of the requests takes over.
func AddQuotes(requests []agentv1alpha1.ResourceRequest, quotes []agentv1alpha1.Quote, except string) []agentv1alpha1.ResourceRequest {
	out := slices.Clone(requests)
	for i := range quotes {
		q := &quotes[i]
		taken := q.Status.QuoteName != "" && slices.ContainsFunc(requests, func(rr agentv1alpha1.ResourceRequest) bool { return rr.Status.QuoteName == q.Status.QuoteName })
		if q.Name == except || q.IsOver() || taken {
			continue
		}
		rr := q.Request()
		rr.Name = "quote/" + q.Name // no ResourceRequest can have this name
		rr.Status.Asked = q.Status.Asked
		out = append(out, *rr)
	}
	return out
}

// ReadQuotes lists the Quotes of a namespace.
func ReadQuotes(ctx context.Context, c client.Reader, namespace string) ([]agentv1alpha1.Quote, error) {
	var quotes agentv1alpha1.QuoteList
	if err := c.List(ctx, &quotes, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Quotes of namespace %q: %w", namespace, err)
	}
	return quotes.Items, nil
}

// CheckQuote returns an error for each bound of the namespace that a new Quote exceeds. The Quote counts like a request
// for the same capacity.
func CheckQuote(ctx context.Context, c client.Reader, q *agentv1alpha1.Quote) (field.ErrorList, error) {
	b, err := Read(ctx, c, q.Namespace)
	if err != nil {
		return nil, err
	}
	var others []agentv1alpha1.ResourceRequest
	if b.Sums() {
		var requests agentv1alpha1.ResourceRequestList
		if err := c.List(ctx, &requests, client.InNamespace(q.Namespace)); err != nil {
			return nil, fmt.Errorf("listing ResourceRequests of namespace %q: %w", q.Namespace, err)
		}
		quotes, err := ReadQuotes(ctx, c, q.Namespace)
		if err != nil {
			return nil, err
		}
		others = AddQuotes(requests.Items, quotes, q.Name)
		others = slices.DeleteFunc(others, func(rr agentv1alpha1.ResourceRequest) bool { return !rr.Status.Asked })
	}
	return b.Check(q.Request(), others), nil
}

// CompareQuote returns an error for each field in which a request differs from the Quote that the request takes over.
// Fields that the broker does not compare, such as priority and queuePolicy, may differ.
func CompareQuote(rr *agentv1alpha1.ResourceRequest, q *agentv1alpha1.Quote) field.ErrorList {
	spec, quoted := field.NewPath("spec"), q.Request()
	var errs field.ErrorList
	compare := func(name string, asked, held any) {
		if !equality.Semantic.DeepEqual(asked, held) {
			errs = append(errs, field.Invalid(spec.Child(name), field.OmitValueType{},
				fmt.Sprintf("differs from Quote %q: ask for what was quoted, create another Quote, or remove spec.quote", q.Name)))
		}
	}
	compare("cpu", rr.Spec.CPU, quoted.Spec.CPU)
	compare("memory", rr.Spec.Memory, quoted.Spec.Memory)
	compare("resources", rr.Spec.Resources, quoted.Spec.Resources)
	compare("duration", rr.Spec.Duration, quoted.Spec.Duration)
	compare("group", rr.Spec.Group, quoted.Spec.Group)
	compare("constraints", rr.Spec.Constraints, quoted.Spec.Constraints)
	compare("podShapes", rr.Spec.PodShapes, quoted.Spec.PodShapes)
	compare("data", rr.Spec.Data, quoted.Spec.Data)
	return errs
}
