package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
)

// mailboxNamespace is rome's namespace in the broker's cluster, as named by the chart.
const mailboxNamespace = "mailbox-rome"

// TestMemberWorksThroughMailboxes switches rome from the REST API to the API server of the broker's cluster while
// pods run on its reservation. A whole reservation then runs through mailboxes.
func TestMemberWorksThroughMailboxes(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	before, _ := readyRequest(t, rome, "before-mailboxes", small())
	pods := run(t, env, rome, before)
	checkReceipts(t, env, before)

	throughMailboxes(t, env)
	check(t, awaitPoll(t.Context(), env))
	_, err := env.Product.Release("broker").Test(t.Context())
	check(t, err)

	r, took := readyRequest(t, rome, "through-mailboxes", withGPU())
	t.Logf("Ready through mailboxes after %.1f s", took.Seconds())
	if r.Status.TargetClusterID != "berlin" {
		t.Errorf("on %q, want berlin", r.Status.TargetClusterID)
	}
	checkReceipts(t, env, r)
	check(t, pods.Unchanged(t.Context()))
	check(t, rome.DeleteDeployments(t.Context(), namespace))
	check(t, rome.DeleteAndWait(t.Context(), r, patience))
	check(t, rome.DeleteAndWait(t.Context(), before, patience))
	check(t, env.AwaitIdle(t.Context(), patience))
}

// TestMailboxAccountHasNoOtherRights checks that a cluster's account can only send requests in its own namespace, and
// only as many at a time as its quota allows.
func TestMailboxAccountHasNoOtherRights(t *testing.T) {
	env := playgroundOf(t)
	throughMailboxes(t, env)
	check(t, awaitPoll(t.Context(), env))
	text, err := mailboxKubeconfig(t.Context(), env)
	check(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	check(t, err)
	account, err := e2e.NewCluster("broker as rome", config, "")
	check(t, err)

	for what, attempt := range map[string]error{
		"reads Secrets":           account.List(t.Context(), &corev1.SecretList{}, client.InNamespace(mailboxNamespace)),
		"reads reservations":      account.List(t.Context(), &brokerv1alpha1.ReservationList{}),
		"asks as another cluster": account.Create(t.Context(), pingBy("mailbox-paris", "stray")),
		"answers itself":          account.Status().Update(t.Context(), pingBy(mailboxNamespace, "stray")),
	} {
		if !apierrors.IsForbidden(attempt) && !apierrors.IsNotFound(attempt) {
			t.Errorf("the account %s: %v", what, attempt)
		}
	}
	err = env.Broker.Create(t.Context(), pingBy(mailboxNamespace, "by-an-administrator"))
	if err == nil || !strings.Contains(err.Error(), "ServiceAccount agent of its own namespace") {
		t.Errorf("an administrator asks as rome: %v", err)
	}

	// Answers stay until the agent deletes them, so the quota limits the total.
	made := 0
	for err = nil; made < 200; made++ {
		if err = account.Create(t.Context(), pingBy(mailboxNamespace, fmt.Sprintf("flood-%d", made))); err != nil {
			break
		}
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("mailbox %d: %v", made, err)
	}
	for n := range made {
		check(t, account.Delete(t.Context(), pingBy(mailboxNamespace, fmt.Sprintf("flood-%d", n))))
	}
	check(t, awaitPoll(t.Context(), env))
}

func pingBy(namespace, name string) *brokerv1alpha1.ClusterMailbox {
	return &brokerv1alpha1.ClusterMailbox{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: "/api/v1/ping"},
	}
}

// throughMailboxes makes rome use mailboxes until the end of the test.
func throughMailboxes(t *testing.T, env *Environment) {
	t.Helper()
	broker, agent := env.Product.Values("broker"), env.Product.Values("rome")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: product.Namespace, Name: "broker-kubeconfig"}}
	t.Cleanup(func() {
		ctx := context.Background() // the test's context has ended
		check(t, env.Product.Upgrade(ctx, "rome", agent))
		check(t, env.Product.Upgrade(ctx, "broker", broker))
		check(t, client.IgnoreNotFound(env.Member("rome").Delete(ctx, secret)))
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mailboxNamespace}}
		check(t, env.Broker.AwaitGone(ctx, ns, patience))
	})

	changed := env.Product.Values("broker")
	changed["mailboxes"] = map[string]any{"clusters": []any{map[string]any{"clusterID": "rome"}}}
	check(t, env.Product.Upgrade(t.Context(), "broker", changed))
	kubeconfig, err := mailboxKubeconfig(t.Context(), env)
	check(t, err)
	secret.Data = map[string][]byte{"kubeconfig": kubeconfig}
	check(t, env.Member("rome").Create(t.Context(), secret))
	// Rome has only its account: its key and certificate are deleted, and so is the address of the enrolment
	// listener.
	env.Product.Process("rome").Kill()
	check(t, env.Member("rome").Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: product.Namespace, Name: "agent-identity"}}))
	changed = env.Product.Values("rome")
	delete(changed, "enrolment")
	changed["broker"] = map[string]any{"kubernetes": map[string]any{"existingSecret": secret.Name, "namespace": mailboxNamespace}}
	check(t, env.Product.Upgrade(t.Context(), "rome", changed))
}

// mailboxKubeconfig returns a kubeconfig with a token of the account that the broker's chart created for rome.
func mailboxKubeconfig(ctx context.Context, env *Environment) ([]byte, error) {
	file, err := env.Playground.Clusters[playground.BrokerCluster].ServiceAccountKubeconfig(ctx, mailboxNamespace, "agent")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// awaitPoll waits until rome's agent polls through a mailbox.
func awaitPoll(ctx context.Context, env *Environment) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		list := &brokerv1alpha1.ClusterMailboxList{}
		if err := env.Broker.List(ctx, list, client.InNamespace(mailboxNamespace)); err != nil {
			return "", err
		}
		for _, box := range list.Items {
			if strings.HasPrefix(box.Spec.Path, "/api/v1/instructions") && box.Status.Code == 0 {
				return "", nil
			}
		}
		return fmt.Sprintf("a mailbox in which rome waits for instructions, there are %d others", len(list.Items)), nil
	})
}
