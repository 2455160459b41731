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
	// mailboxAccount is the ServiceAccount that speaks for a cluster in its namespace.
	mailboxAccount = "agent"
	// answerWithin is how long an answer may take that does not wait for news. The agent
	// gives up, and deletes the mailbox, after twice that.
	answerWithin = 5 * time.Second
)

// checkMailboxes looks whether the clusters of --mailboxes can ask, whether they do, and
// whether somebody answers.
func (o *checkOptions) checkMailboxes(ctx context.Context, c client.Reader, now time.Time) checkup.Finding {
	if len(o.mailboxes) == 0 {
		return checkup.Skip("--mailboxes is not given: no agent comes through this API server")
	}
	clusters, err := clustersOf(o.mailboxes)
	if err != nil {
		return checkup.Fail("", "%v", err)
	}
	var silent []string
	for _, namespace := range slices.Sorted(maps.Keys(clusters)) {
		boxes, err := mailboxesIn(ctx, c, namespace)
		switch {
		case apierrors.IsForbidden(err):
			return checkup.Skip("this account lacks the permission: %v", err)
		case apierrors.IsNotFound(err):
			return checkup.Fail("list the cluster in mailboxes.clusters of the chart, or make the account as docs/kubernetes-transport.md says",
				"cluster %q has no account: %v in namespace %q", clusters[namespace], err, namespace)
		case err != nil:
			return checkup.Fail("", "%v", err)
		}
		if n := slices.IndexFunc(boxes, func(b brokerv1alpha1.ClusterMailbox) bool { return overdue(&b, now) }); n >= 0 {
			waiting := &boxes[n]
			return checkup.Fail("is a broker ready, and does its --mailboxes name the namespace? The clock of the API server may also be behind",
				"cluster %q is not answered: %s %s has waited in ClusterMailbox %s/%s since %s", clusters[namespace],
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
		return checkup.Warn("look at the log of their agents; a token may have expired",
			"%d of %d clusters ask nothing, where polls usually wait: %s", len(silent), len(clusters), strings.Join(silent, ", "))
	}
	return checkup.Found("%d clusters ask and are answered: %s", len(clusters), strings.Join(slices.Sorted(maps.Values(clusters)), ", "))
}

// mailboxesIn a namespace; not found if nobody could have made them.
func mailboxesIn(ctx context.Context, c client.Reader, namespace string) ([]brokerv1alpha1.ClusterMailbox, error) {
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

// overdue reports whether a request should have its answer by now. A poll says itself how
// many seconds it waits.
func overdue(box *brokerv1alpha1.ClusterMailbox, now time.Time) bool {
	if box.Status.Code != 0 {
		return false
	}
	within := answerWithin
	if asked, err := url.Parse(box.Spec.Path); err == nil {
		if seconds, err := strconv.Atoi(asked.Query().Get("wait")); err == nil {
			within += time.Duration(seconds) * time.Second
		}
	}
	return now.Sub(box.CreationTimestamp.Time) > within
}

// checkMailboxPolicy looks whether the account alone can speak for its cluster, and has
// nothing to say if so.
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
			return checkup.Warn("upgrade the release, whose chart has it",
				"admission policy %q or its binding is missing: whoever may make ClusterMailboxes in a cluster's namespace speaks for it", key.Name)
		case apierrors.IsForbidden(err):
			return checkup.Skip("this account lacks the permission: %v", err)
		case err != nil:
			return checkup.Fail("", "%v", err)
		}
	}
	return checkup.Finding{Level: checkup.OK}
}
