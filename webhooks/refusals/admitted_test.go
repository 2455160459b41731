package refusals

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var (
	reservationKind = brokerv1alpha1.GroupVersion.WithKind("Reservation")
	advertKind      = brokerv1alpha1.GroupVersion.WithKind("ClusterAdvertisement")
	requestKind     = agentv1alpha1.GroupVersion.WithKind("ResourceRequest")
)

// testAdmitted writes objects at the limits that the refused ones exceed.
func (s *site) testAdmitted(t *testing.T) {
	for name, tc := range map[string]struct{ user, manifest, warning string }{
		"the most of every resource":          {"", reservation + `{requesterID: rome, duration: 24h, requestedResources: {cpu: 32, memory: 64Gi}}`, ""},
		"the longest where none is set":       {"", resourceRequest + `{cpu: "1", memory: 1Gi, duration: 87600h}`, ""},
		"pods that name cpu and memory":       {"", strings.Replace(resourceRequest, "team", "default", 1) + `{podShapes: [{count: 1, resources: {cpu: 1, memory: 1Gi}}]}`, ""},
		"in the name that was granted":        {"alice", reservation + `{requesterID: blue-team, requestedResources: {cpu: 1, memory: 1Gi}}`, ""},
		"what is left of the namespace's sum": {"alice", resourceRequest + `{cpu: "6", memory: 1Gi, priority: 100, resources: {nvidia.com/gpu: 1}}`, ""},
		"an advertisement of another cluster": {"", clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}, available: {cpu: 7}}}`, ""},
		"more than every known cluster has": {
			"", reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}`,
			"spec.requestedResources: larger than every known cluster, so the reservation fails: ask for less, or in several reservations (milan has 0 nvidia.com/gpu)",
		},
		"more than every known cluster has, until one grows": {
			"", reservation + `{requesterID: rome, queuePolicy: Queue, queueTimeout: 1h, requestedResources: {cpu: 1, nvidia.com/gpu: 1, memory: 1Gi}}`,
			"spec.requestedResources: larger than every known cluster, so the reservation waits until one grows",
		},
		"an unknown cluster": {
			"", reservation + `{requesterID: rome, targetClusterID: paris, requestedResources: {cpu: 1, memory: 1Gi}}`,
			`spec.targetClusterID: no cluster "paris" has advertised: the reservation fails unless it does so in time; known are milan, rome`,
		},
		"a namespace that did not opt in": {
			"", resourceRequest + `{cpu: "1", memory: 1Gi, namespaces: [team, default]}`,
			`spec.namespaces[1]: namespace "default" is not open to requests of namespace "team"`,
		},
		"a namespace that does not exist": {
			"", resourceRequest + `{cpu: "1", memory: 1Gi, namespaces: [nosuch]}`,
			`spec.namespaces[0]: namespace "nosuch" does not exist`,
		},
		"a cluster that nobody knows": {
			"", reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}, constraints: {includeClusters: [oslo]}}`,
			`spec.constraints.includeClusters[0]: no cluster advertises cluster "oslo"; known are milan, rome`,
		},
		"prices without a currency": {
			"", clusterAdvertisement + `{clusterID: paris, resources: {capacity: {cpu: 1}}, cost: {cpuCost: "1"}}`,
			"spec.cost.currency: prices without a currency are not compared: set it, for example EUR",
		},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := s.post(t, tc.user, tc.manifest, true)
			if err != nil {
				t.Error(err)
			}
			warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "quote: ") })
			if got := strings.Join(warnings, "\n"); !strings.Contains(got, tc.warning) || tc.warning == "" && got != "" {
				t.Errorf("warnings %q, want %q", got, tc.warning)
			}
		})
	}
	t.Run("what no cluster can hold fails, with the reason of each", func(t *testing.T) {
		_, err := s.post(t, "", strings.Replace(reservation, "bad", "too-large", 1)+`{requesterID: rome, requestedResources: {cpu: 1, nvidia.com/gpu: 1, memory: 1Gi}}`, false)
		runtest.Check(t, err)
		s.await(t, reservationKind, "default", "too-large", "Failed", "status", "phase")
		s.wantMessage(t, reservationKind, "default", "too-large", "milan: ", "nvidia.com/gpu")
	})
}

// testPreviewed checks that a dry run returns who would serve a request, or why no cluster can.
func (s *site) testPreviewed(t *testing.T) {
	for name, tc := range map[string]struct {
		manifest string
		want     []string
	}{
		"a Reservation that is served": {reservation + `{requesterID: rome, requestedResources: {cpu: 1, memory: 1Gi}}`, []string{"quote: milan would serve it, without a price"}},
		"a Reservation that nobody serves": {reservation + `{requesterID: rome, requestedResources: {cpu: 1, nvidia.com/gpu: 1, memory: 1Gi}}`, []string{
			"quote: no cluster can serve it now", "quote: milan cannot serve it: NeverAdvertised", "quote: what helps against NeverAdvertised: nothing, unless the cluster withholds the resource",
		}},
		"a ResourceRequest that is served": {resourceRequest + `{cpu: "1", memory: 1Gi}`, []string{"quote: milan would serve it, without a price"}},
		"a ResourceRequest that waits": {resourceRequest + `{cpu: "1", memory: 1Gi, resources: {nvidia.com/gpu: 1}, queuePolicy: Queue}`, []string{
			"quote: no cluster can serve it now, so it would wait in the queue", "quote: milan cannot serve it: NeverAdvertised",
		}},
		"a ResourceRequest that the broker refuses": {resourceRequest + `{cpu: "1", memory: 100Gi}`, []string{
			"quote: none: the broker would refuse it: resources: 100Gi of memory is more than one reservation may ask for",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := s.post(t, "", tc.manifest, true)
			runtest.Check(t, err)
			warnings = slices.DeleteFunc(warnings, func(w string) bool { return !strings.HasPrefix(w, "quote: ") })
			if len(warnings) < len(tc.want) {
				t.Fatalf("warnings %q, want %q", warnings, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(warnings[i], want) {
					t.Errorf("warning %d is %q, want %q", i, warnings[i], want)
				}
			}
		})
	}
}

// testQuoted holds capacity with a Quote. Only one of two requests for it gets it.
func (s *site) testQuoted(t *testing.T) {
	const quote = "apiVersion: liqo.io/v1alpha1\nkind: Quote\nmetadata: {name: offer, namespace: default}\nspec: "
	const demand = `cpu: "2", memory: 2Gi, duration: 8h`
	request := func(name string) string {
		return "apiVersion: liqo.io/v1alpha1\nkind: ResourceRequest\nmetadata: {name: " + name + ", namespace: default}\nspec: "
	}
	quoteKind := agentv1alpha1.GroupVersion.WithKind("Quote")
	said := s.create(t, "", quote+`{cpu: "2"}`)
	wantWords(t, said, []string{"set both cpu and memory"})
	warnings, err := s.post(t, "", quote+"{"+demand+", hold: 5m}", true)
	if err != nil || len(warnings) == 0 || warnings[0] != "quote: milan would serve it, without a price" {
		t.Errorf("a dry run of a Quote: %q, %v", warnings, err)
	}
	s.apply(t, quote+"{"+demand+", hold: 5m}")
	s.await(t, quoteKind, "default", "offer", "Held", "status", "phase")
	s.await(t, quoteKind, "default", "offer", "milan", "status", "targetClusterID")
	wantWords(t, s.create(t, "", request("other")+`{quote: offer, cpu: "3", memory: 2Gi, duration: 8h}`), []string{"spec.cpu", `differs from Quote "offer"`})
	err = s.as(t, "").Patch(types.MergePatchType).AbsPath("/apis/liqo.io/v1alpha1/namespaces/default/quotes/offer").Body([]byte(`{"spec":{"cpu":"3"}}`)).Do(t.Context()).Error()
	wantWords(t, refusalOf(t, err), []string{"a Quote cannot be changed", "delete it and create another"})

	s.apply(t, request("first")+"{quote: offer, "+demand+"}")
	s.await(t, requestKind, "default", "first", "Reserved", "status", "phase")
	s.await(t, quoteKind, "default", "offer", "Taken", "status", "phase")
	s.await(t, quoteKind, "default", "offer", "first", "status", "takenBy")
	s.apply(t, request("second")+"{quote: offer, "+demand+"}")
	s.await(t, requestKind, "default", "second", "Failed", "status", "phase")
	s.wantMessage(t, requestKind, "default", "second", `quote "offer" was taken over by ResourceRequest "first"`, "Create another Quote")
	for _, done := range []client.Object{object(requestKind, "default", "first"), object(requestKind, "default", "second"), object(quoteKind, "default", "offer")} {
		s.deleteAndWait(t, done)
	}
}

func (s *site) configurations(t *testing.T) []admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	var list admissionv1.ValidatingWebhookConfigurationList
	runtest.Check(t, s.List(t.Context(), &list))
	if len(list.Items) != 2 {
		t.Fatalf("%d webhook configurations, want the broker's and the agent's", len(list.Items))
	}
	return list.Items
}

// testAway points the webhooks at an address without a server. Existing objects must still end
// and get statuses; new objects are refused.
func (s *site) testAway(t *testing.T) {
	for _, c := range s.configurations(t) {
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.Service.Port = new(int32(1))
		}
		runtest.Check(t, s.Update(t.Context(), &c))
	}
	s.awaitAnswer(t, "failed calling webhook")
	for _, gone := range []client.Object{
		object(reservationKind, "default", "held"), object(requestKind, "team", "mine"),
	} {
		s.deleteAndWait(t, gone)
	}
	s.await(t, advertKind, "default", "milan", "64", "spec", "resources", "available", "cpu")
}

// deleteAndWait deletes an object and waits until its finalizers are removed.
func (s *site) deleteAndWait(t *testing.T, gone client.Object) {
	t.Helper()
	runtest.Check(t, s.Delete(t.Context(), gone))
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(ctx context.Context) (bool, error) {
		err := s.Get(ctx, client.ObjectKeyFromObject(gone), gone)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Errorf("%s does not end: %v", gone.GetName(), err)
	}
}

// testBypassed removes the webhooks and writes the same invalid objects. Broker and agent must
// grant nothing for them.
func (s *site) testBypassed(t *testing.T) {
	for _, c := range s.configurations(t) {
		runtest.Check(t, s.Delete(t.Context(), &c))
	}
	s.awaitAnswer(t, "")
	was := s.journal(t)
	for name, tc := range map[string]struct {
		manifest string
		want     []string
	}{
		"above-the-most": {reservation + `{requesterID: rome, requestedResources: {cpu: 33, memory: 1Gi}}`, []string{"33 of cpu", "the most is 32, set by BrokerConfig.spec.maxPerReservation"}},
		"too-long":       {reservation + `{requesterID: rome, duration: 25h, requestedResources: {cpu: 1, memory: 1Gi}}`, []string{"duration", "the longest is 24h0m0s"}},
		"denied":         {reservation + `{requesterID: mallory, requestedResources: {cpu: 1, memory: 1Gi}}`, []string{"mallory", "spec.deniedClusters"}},
		"itself":         {reservation + `{requesterID: milan, targetClusterID: milan, requestedResources: {cpu: 1, memory: 1Gi}}`, []string{"targetClusterID", "is the requester itself"}},
		"wrong-name":     {reservation + `{requesterID: rome, requestedResources: {cpu: 1, cpus: 1, memory: 1Gi}}`, []string{`unknown resource "cpus"`}},
		"half-a-gpu":     {reservation + `{requesterID: rome, requestedResources: {cpu: 1, nvidia.com/gpu: 500m, memory: 1Gi}}`, []string{"must be a whole number"}},
		"no-cpu":         {reservation + `{requesterID: rome, requestedResources: {memory: 1Gi}, podShapes: [{count: 1, resources: {memory: 1Gi}}]}`, []string{"cpu must be above zero"}},
		"most-of-one":    {resourceRequest + `{cpu: "9", memory: 1Gi}`, []string{"spec.cpu", `LimitRange "requests" allows at most 8`}},
		"priority":       {resourceRequest + `{cpu: "1", memory: 1Gi, priority: 101}`, []string{"spec.priority", "at most 100"}},
		"sum":            {resourceRequest + `{cpu: "1", memory: 1Gi, resources: {nvidia.com/gpu: 2}}`, []string{"spec.resources[nvidia.com/gpu]"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.post(t, "", strings.Replace(tc.manifest, "bad", name, 1), false); err != nil {
				t.Fatal(err)
			}
			kind, ns := reservationKind, "default"
			if strings.Contains(tc.manifest, "ResourceRequest") {
				kind, ns = requestKind, "team"
			}
			s.await(t, kind, ns, name, "Failed", "status", "phase")
			s.wantMessage(t, kind, ns, name, tc.want...)
		})
	}
	t.Run("a second advertisement has no effect", func(t *testing.T) {
		if _, err := s.post(t, "", strings.Replace(clusterAdvertisement, "bad", "second", 1)+`{clusterID: milan, resources: {capacity: {cpu: 1k}}}`, false); err != nil {
			t.Fatal(err)
		}
		s.await(t, advertKind, "default", "second", "Inactive", "status", "phase")
	})
	t.Run("the mark of the broker does not reach another namespace", func(t *testing.T) {
		text := strings.Replace(reservation, "{name: bad,", "{name: marked, labels: {app.kubernetes.io/managed-by: liqo-resource-broker},", 1)
		if _, err := s.post(t, "", text+`{requesterID: mallory, requestedResources: {cpu: 1, memory: 1Gi}}`, false); err != nil {
			t.Fatal(err)
		}
		s.await(t, reservationKind, "default", "marked", "Failed", "status", "phase")
	})
	if now := s.journal(t); now != was {
		t.Errorf("the journal went from %s to %s", was, now)
	}
}

// journal returns the versions of the journal's objects.
func (s *site) journal(t *testing.T) string {
	t.Helper()
	var list corev1.ConfigMapList
	runtest.Check(t, s.List(t.Context(), &list, client.InNamespace(namespace)))
	var versions []string
	for i := range list.Items {
		versions = append(versions, list.Items[i].Name+"="+list.Items[i].ResourceVersion)
	}
	return strings.Join(versions, " ")
}

// awaitAnswer waits until the API server refuses an invalid manifest with these words, or
// admits it if words is empty.
func (s *site) awaitAnswer(t *testing.T, words string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(context.Context) (bool, error) {
		_, broker := s.post(t, "", reservation+`{requesterID: mallory, requestedResources: {cpu: 1, memory: 1Gi}}`, true)
		_, agent := s.post(t, "", resourceRequest+`{cpu: "9", memory: 1Gi}`, true)
		if words == "" {
			return broker == nil && agent == nil, nil
		}
		return broker != nil && strings.Contains(broker.Error(), words) && agent != nil && strings.Contains(agent.Error(), words), nil
	})
	if err != nil {
		t.Fatalf("waiting for the answer %q: %v", words, err)
	}
}

func object(kind schema.GroupVersionKind, namespace, name string) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.SetGroupVersionKind(kind)
	return out
}

func (s *site) wantMessage(t *testing.T, kind schema.GroupVersionKind, namespace, name string, want ...string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	runtest.Check(t, s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj))
	message, _, err := unstructured.NestedString(obj.Object, "status", "message")
	runtest.Check(t, err)
	wantWords(t, message, want)
}
