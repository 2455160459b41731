package app

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

const (
	// mailboxAccount is the name of the ServiceAccount that a cluster's agent uses, in the
	// namespace of that cluster.
	mailboxAccount = "agent"
	// answerTimeout is how long the broker may take to answer a request that is not a long poll.
	// After twice this time the agent gives up and deletes the mailbox.
	answerTimeout = 5 * time.Second
)

// checkMailboxes checks that the clusters in --mailboxes can and do send requests through this API
// server, and that the broker answers these requests.
func (o *checkOptions) checkMailboxes(ctx context.Context, c client.Reader, now time.Time) checkup.Finding {
	if len(o.mailboxes) == 0 {
		return checkup.Skip("--mailboxes is not given: no agent uses this API server")
	}
	clusters, err := clustersByNamespace(o.mailboxes)
	if err != nil {
		return checkup.Fail("", "%v", err)
	}
	var silent []string
	for _, namespace := range slices.Sorted(maps.Keys(clusters)) {
		boxes, err := listMailboxes(ctx, c, namespace)
		switch {
		case apierrors.IsForbidden(err):
			return checkup.Skip("this account lacks the permission: %v", err)
		case apierrors.IsNotFound(err):
			return checkup.Fail("list the cluster in mailboxes.clusters of the chart, or create the account as docs/kubernetes-transport.md describes",
				"cluster %q has no account: %v in namespace %q", clusters[namespace], err, namespace)
		case err != nil:
			return checkup.Fail("", "%v", err)
		}
		if n := slices.IndexFunc(boxes, func(b brokerv1alpha1.ClusterMailbox) bool { return isOverdue(&b, now) }); n >= 0 {
			waiting := &boxes[n]
			return checkup.Fail("check that a broker is ready, and that its --mailboxes names the namespace; the clock of the API server may also be behind",
				"cluster %q gets no answer: %s %s has waited in ClusterMailbox %s/%s since %s", clusters[namespace],
				waiting.Spec.Method, waiting.Spec.Path, namespace, waiting.Name, waiting.CreationTimestamp.UTC().Format(time.RFC3339))
		}
		if len(boxes) == 0 {
			silent = append(silent, clusters[namespace])
		}
	}
	if finding := o.checkMailboxPolicy(ctx, c); finding.Level != checkup.OK {
		return finding
	}
	if len(silent) > 0 {
		return checkup.Warn("check the logs of their agents; a token may have expired",
			"%d of %d clusters have no open requests, not even long polls: %s", len(silent), len(clusters), strings.Join(silent, ", "))
	}
	return checkup.Found("%d clusters send requests and get answers: %s", len(clusters), strings.Join(slices.Sorted(maps.Values(clusters)), ", "))
}

// listMailboxes lists the mailboxes in the namespace of a cluster. It returns a NotFound error if
// the ServiceAccount of the cluster's agent does not exist.
func listMailboxes(ctx context.Context, c client.Reader, namespace string) ([]brokerv1alpha1.ClusterMailbox, error) {
	account := client.ObjectKey{Namespace: namespace, Name: mailboxAccount}
	if err := c.Get(ctx, account, &corev1.ServiceAccount{}); err != nil {
		return nil, err
	}
	list := &brokerv1alpha1.ClusterMailboxList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ClusterMailboxes in namespace %q: %w", namespace, err)
	}
	return list.Items, nil
}

// isOverdue reports whether a request has waited too long for its answer. For a long poll, the
// query parameter wait says how many seconds it may wait in addition to answerTimeout.
func isOverdue(box *brokerv1alpha1.ClusterMailbox, now time.Time) bool {
	if box.Status.Code != 0 {
		return false
	}
	within := answerTimeout
	if asked, err := url.Parse(box.Spec.Path); err == nil {
		if seconds, err := strconv.Atoi(asked.Query().Get("wait")); err == nil {
			within += time.Duration(seconds) * time.Second
		}
	}
	return now.Sub(box.CreationTimestamp.Time) > within
}

// checkMailboxPolicy checks that the admission policy for mailboxes exists. The policy lets only
// the agent's account act as its cluster. If it exists, or if --name is not set, the finding has
// level OK and no message.
func (o *checkOptions) checkMailboxPolicy(ctx context.Context, c client.Reader) checkup.Finding {
	if o.name == "" {
		return checkup.Finding{Level: checkup.OK}
	}
	key := client.ObjectKey{Name: o.name + "-mailboxes"}
	for _, obj := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	} {
		err := c.Get(ctx, key, obj)
		switch {
		case apierrors.IsNotFound(err):
			return checkup.Warn("upgrade the release; the chart contains it",
				"admission policy %q or its binding is missing: anyone who may create ClusterMailboxes in a cluster's namespace can act as the cluster", key.Name)
		case apierrors.IsForbidden(err):
			return checkup.Skip("this account lacks the permission: %v", err)
		case err != nil:
			return checkup.Fail("", "%v", err)
		}
	}
	return checkup.Finding{Level: checkup.OK}
}
