package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/uninstall"
)

const installed = "liqo-resource-broker"

func TestBrokerIsUninstalled(t *testing.T) {
	b := newBench(t)
	c := b.Client
	b.apply(localCluster)
	b.awaitAvailable("local-cluster-adv", "8950m", "7597392Ki")
	for i := range 12 {
		name := fmt.Sprintf("r%02d", i)
		b.apply(reservationText(name, "100m", "1Mi", ""))
		b.awaitPhase(name, brokerv1alpha1.ReservationReserved)
	}
	b.apply(reservationText("too-large", "100", "1Mi", ""))
	b.awaitPhase("too-large", brokerv1alpha1.ReservationFailed)
	o := &uninstallOptions{Options: uninstall.Options{Timeout: hangLimit, Namespace: installed, Name: installed}, keepJournal: true}

	t.Run("a check reports what works and what is missing", func(t *testing.T) {
		output, err := checked(b)
		if err == nil || !strings.Contains(err.Error(), "1 of 10 checks failed") {
			t.Errorf("got %v, want the missing listener to fail", err)
		}
		for _, line := range []string{
			"ok    API server: Kubernetes v1.", "ok    CRDs of broker.fluidos.eu: ", "ok    journal: ", "ok    configuration: there is no BrokerConfig",
			"ok    clusters: 1 of 1 take new reservations", "skip  certificates: ", "FAIL  listener for agents: ", "webhooks: ",
		} {
			if !strings.Contains(output, line) {
				t.Errorf("output lacks %q:\n%s", line, output)
			}
		}
	})

	t.Run("live reservations stop it", func(t *testing.T) {
		o.Policy = uninstall.Refuse
		output, err := o.run(t, c, o.depart)
		if err == nil || !strings.Contains(err.Error(), "12 in use, the first: Reservation default/r00: Reserved, user-team uses fd32c7d2-7cc6-46e6-80aa-d3d5c835586c") {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(output, "and 2 more") || strings.Contains(output, "too-large") || !strings.Contains(output, "uninstall.policy=Drain") {
			t.Errorf("got output:\n%s", output)
		}
	})

	t.Run("a drain releases them", func(t *testing.T) {
		o.Policy = uninstall.Drain
		if output, err := o.run(t, c, o.depart); err != nil || !strings.HasSuffix(output, "drained: nothing is in use\n") {
			t.Errorf("got %v and output:\n%s", err, output)
		}
		b.awaitAvailable("local-cluster-adv", "8950m", "")
	})

	t.Run("the cleanup keeps only the journal, the accounts and objects of others", func(t *testing.T) {
		b.apply(reservationText("ignored", "100m", "1Mi", ""))
		b.awaitPhase("ignored", brokerv1alpha1.ReservationReserved)
		b.broker.Kill()
		rendered := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: installed + "-additional-roots"}}
		if err := c.Delete(t.Context(), rendered); err != nil { // Helm has deleted them by now
			t.Fatal(err)
		}
		issued := map[string]string{"cert-manager.io/certificate-name": "tls"}
		ours := map[string]string{"app.kubernetes.io/managed-by": "liqo-resource-broker"}
		for _, obj := range []client.Object{
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: installed + "-tls", Annotations: issued}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: installed + "-agents-ca", Annotations: issued}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: installed + "-webhook-tls"}}, // created by an administrator
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "another-tls", Annotations: issued}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "enrolment", Labels: ours}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "month", Labels: map[string]string{journal.LabelManagedBy: journal.ManagedBy, replay.LabelAccounts: "month"}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "batch", Labels: replay.HistoryLabels()}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "head", Labels: map[string]string{journal.LabelManagedBy: journal.ManagedBy, replay.LabelHead: "liqo-resource-broker"}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "another"}},
		} {
			obj.SetNamespace(installed)
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := o.run(t, c, o.cleanUpTo); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"ConfigMap another", "ConfigMap batch", "ConfigMap head", "ConfigMap month", "ConfigMap of the journal",
			"Secret another-tls", "Secret liqo-resource-broker-webhook-tls",
		}
		if diff := cmp.Diff(want, left(t, c)); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		list := &brokerv1alpha1.ReservationList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if len(list.Items[i].Finalizers) > 0 {
				t.Errorf("Reservation %s has finalizers %v", list.Items[i].Name, list.Items[i].Finalizers)
			}
		}
		if len(list.Items) != 2 {
			t.Errorf("%d Reservations are left, want the two that were not deleted", len(list.Items))
		}
	})

	t.Run("and deletes the journal without keep-journal", func(t *testing.T) {
		o.keepJournal = false
		for range 2 { // the second run finds nothing to do
			if _, err := o.run(t, c, o.cleanUpTo); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"ConfigMap another", "Secret another-tls", "Secret liqo-resource-broker-webhook-tls"}
		if diff := cmp.Diff(want, left(t, c)); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

// checked runs broker check with the broker's own account.
func checked(b *bench) (string, error) {
	config := rest.CopyConfig(b.config)
	config.Impersonate.UserName = "system:serviceaccount:" + installed + ":" + installed
	scheme, err := newScheme()
	if err != nil {
		return "", err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return "", err
	}
	o := &checkOptions{options: defaultOptions(), url: "https://localhost:1", name: installed}
	o.namespace = installed
	checks, err := o.buildChecks(b.t.Context(), config, c)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = checkup.Run(b.t.Context(), &out, checks)
	return out.String(), err
}

func (o *uninstallOptions) depart(ctx context.Context, c client.Client, out *strings.Builder) error {
	return o.newDeparture(c).Run(ctx, out)
}

func (o *uninstallOptions) cleanUpTo(ctx context.Context, c client.Client, out *strings.Builder) error {
	return o.cleanUp(ctx, c, out)
}

func (o *uninstallOptions) run(t *testing.T, c client.Client, step func(context.Context, client.Client, *strings.Builder) error) (string, error) {
	var out strings.Builder
	err := step(t.Context(), c, &out)
	t.Log(out.String())
	return out.String(), err
}

// left lists the objects in the broker's namespace that a cleanup may have touched.
func left(t *testing.T, c client.Client) []string {
	t.Helper()
	var names []string
	for kind, list := range map[string]client.ObjectList{
		"ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{}, "Lease": &coordinationv1.LeaseList{},
	} {
		if err := c.List(t.Context(), list, client.InNamespace(installed)); err != nil {
			t.Fatal(err)
		}
		names = append(names, namesOf(kind, list)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf(kind string, list client.ObjectList) (names []string) {
	switch l := list.(type) {
	case *corev1.ConfigMapList:
		for i := range l.Items {
			name := l.Items[i].Name
			if l.Items[i].Labels[journal.LabelJournal] != "" {
				name = "of the journal"
			}
			names = append(names, kind+" "+name)
		}
	case *corev1.SecretList:
		for i := range l.Items {
			names = append(names, kind+" "+l.Items[i].Name)
		}
	case *coordinationv1.LeaseList:
		for i := range l.Items {
			names = append(names, kind+" "+l.Items[i].Name)
		}
	}
	return names
}
