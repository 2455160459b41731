package refusals

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// bob gives the user bob the rights of alice in the namespaces default and team.
const bob = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bob, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: broker-tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bob, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent-tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
`

const (
	requestsPath     = "/apis/liqo.io/v1alpha1/namespaces/team/resourcerequests/"
	reservationsPath = "/apis/broker.fluidos.eu/v1alpha1/namespaces/default/reservations/"
)

// The webhooks record users by name, even if users write other names into the annotations. Without the webhooks, the
// policy refuses other names, and an edit is not attributed to the author of an earlier one.
func TestUsersAreRecordedAndNamesCannotBeForged(t *testing.T) {
	s := newSite(t)
	s.await(t, advertKind, namespace, "rome", "Active", "status", "phase")
	s.apply(t, standing)
	s.apply(t, bob)
	s.await(t, reservationKind, "default", "held", "Reserved", "status", "phase")
	t.Run("request", s.testRequestNamesItsUsers)
	t.Run("reservation", s.testReservationNamesItsUsers)
	t.Run("configuration", s.testConfigurationNamesItsAuthor)
	s.removeWebhooks(t)
	t.Run("without webhooks", s.testNamesWithoutWebhooks)
}

// named returns a manifest of a new object with annotations.
func named(manifest, name, annotations string) string {
	return strings.Replace(manifest, "name: bad", "name: "+name+", annotations: {"+annotations+"}", 1)
}

func (s *site) edit(t *testing.T, user, path, patch string) error {
	t.Helper()
	return s.as(t, user).Patch(types.MergePatchType).AbsPath(path).Param("fieldValidation", "Strict").Body([]byte(patch)).Do(t.Context()).Error()
}

// wantAuthor compares who wrote an object's spec, and in which generation.
func (s *site) wantAuthor(t *testing.T, kind schema.GroupVersionKind, namespace, name, author, generation string) {
	t.Helper()
	obj := object(kind, namespace, name)
	runtest.Check(t, s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	got := []string{obj.GetAnnotations()[brokerv1alpha1.RequestedByAnnotation], obj.GetAnnotations()[brokerv1alpha1.RequestedByGenerationAnnotation]}
	if diff := cmp.Diff([]string{author, generation}, got); diff != "" {
		t.Errorf("author and generation (-want +got):\n%s", diff)
	}
}

// reservationOf returns the broker's name of the reservation that an object asked for.
func (s *site) reservationOf(t *testing.T, kind schema.GroupVersionKind, namespace, name string) string {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	runtest.Check(t, s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj))
	reservation, _, err := unstructured.NestedString(obj.Object, "status", "reservationName")
	runtest.Check(t, err)
	return reservation
}

// awaitShown polls the Reservation that shows an agent's request until a field of its status has a value.
func (s *site) awaitShown(t *testing.T, request, want, field string) {
	t.Helper()
	s.await(t, reservationKind, namespace, s.reservationOf(t, requestKind, "team", request), want, "status", field)
}

func (s *site) testRequestNamesItsUsers(t *testing.T) {
	_, err := s.post(t, "alice", named(resourceRequest, "mine", `broker.fluidos.eu/requested-by: carol, broker.fluidos.eu/deleted-by: carol`)+`{cpu: "1", memory: 1Gi, duration: 1h}`, false)
	runtest.Check(t, err)
	s.wantAuthor(t, requestKind, "team", "mine", "alice", "1")
	s.await(t, requestKind, "team", "mine", "Reserved", "status", "phase")
	s.await(t, requestKind, "team", "mine", "alice, as reported by rome", "status", "requestedBy")
	s.awaitShown(t, "mine", "alice, as reported by rome", "requestedBy")

	runtest.Check(t, s.edit(t, "bob", requestsPath+"mine", `{"metadata": {"annotations": {"broker.fluidos.eu/requested-by": "carol"}, "labels": {"team": "blue"}}}`))
	s.wantAuthor(t, requestKind, "team", "mine", "alice", "1")
	runtest.Check(t, s.edit(t, "bob", requestsPath+"mine", `{"spec": {"duration": "2h"}}`))
	s.wantAuthor(t, requestKind, "team", "mine", "bob", "2")
	s.awaitShown(t, "mine", "bob, as reported by rome", "changedBy")
	s.awaitShown(t, "mine", "alice, as reported by rome", "requestedBy")

	name := s.reservationOf(t, requestKind, "team", "mine")
	runtest.Check(t, s.as(t, "alice").Delete().AbsPath(requestsPath+"mine").Do(t.Context()).Error())
	if err := s.awaitJournal(t, `"by":"rome:alice","end":{"name":"`+name+`"`); err != nil {
		t.Error(err)
	}
}

func (s *site) testReservationNamesItsUsers(t *testing.T) {
	_, err := s.post(t, "alice", named(reservation, "hers", "")+`{requesterID: blue-team, requestedResources: {cpu: 1, memory: 1Gi}, duration: 1h}`, false)
	runtest.Check(t, err)
	s.wantAuthor(t, reservationKind, "default", "hers", "alice", "1")
	s.await(t, reservationKind, "default", "hers", "alice", "status", "requestedBy")
	runtest.Check(t, s.edit(t, "alice", reservationsPath+"hers", `{"spec": {"release": true}}`))
	s.await(t, reservationKind, "default", "hers", "alice", "status", "endedBy")

	_, err = s.post(t, "alice", named(reservation, "deleted", "")+`{requesterID: blue-team, requestedResources: {cpu: 1, memory: 1Gi}, duration: 1h}`, false)
	runtest.Check(t, err)
	s.await(t, reservationKind, "default", "deleted", "alice", "status", "requestedBy")
	name := s.reservationOf(t, reservationKind, "default", "deleted")
	runtest.Check(t, s.as(t, "bob").Delete().AbsPath(reservationsPath+"deleted").Do(t.Context()).Error())
	if err := s.awaitJournal(t, `"by":":bob","end":{"name":"`+name+`"`); err != nil {
		t.Error(err)
	}
}

// testConfigurationNamesItsAuthor checks that the record of an edit contains only the difference, and names the
// administrator.
func (s *site) testConfigurationNamesItsAuthor(t *testing.T) {
	runtest.Check(t, s.edit(t, "", "/apis/broker.fluidos.eu/v1alpha1/brokerconfigs/default", `{"spec": {"headroom": 1}}`))
	config := object(brokerv1alpha1.GroupVersion.WithKind("BrokerConfig"), "", "default")
	runtest.Check(t, s.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	author := config.Annotations[brokerv1alpha1.RequestedByAnnotation]
	if author == "" {
		t.Error("the BrokerConfig has no author")
	}
	if err := s.awaitJournal(t, `"by":":`+author+`","configure":{"difference":{"generation":2,"headroom":1}}`); err != nil {
		t.Error(err)
	}
}

// removeWebhooks deletes all webhook configurations; the policies stay.
func (s *site) removeWebhooks(t *testing.T) {
	t.Helper()
	for _, kind := range []client.Object{&admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}} {
		runtest.Check(t, s.DeleteAllOf(t.Context(), kind))
	}
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(context.Context) (bool, error) {
		_, err := s.post(t, "alice", named(resourceRequest, "probe", `broker.fluidos.eu/requested-by: carol, broker.fluidos.eu/requested-by-generation: "1"`)+`{cpu: "1", memory: 1Gi}`, true)
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil // the webhook would have replaced the name
	})
	runtest.Check(t, err)
}

func (s *site) testNamesWithoutWebhooks(t *testing.T) {
	const by, generation = "broker.fluidos.eu/requested-by", "broker.fluidos.eu/requested-by-generation"
	for name, annotations := range map[string]string{
		"another name":                  by + `: carol, ` + generation + `: "1"`,
		"the own name for a later spec": by + `: alice, ` + generation + `: "2"`,
		"a deletion":                    `broker.fluidos.eu/deleted-by: carol, broker.fluidos.eu/deleted-by-time: "2026-03-01T12:00:00Z"`,
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			said := s.create(t, "alice", named(resourceRequest, "forged", annotations)+`{cpu: "1", memory: 1Gi}`)
			wantWords(t, said, []string{"leave them out"})
		})
	}
	_, err := s.post(t, "alice", named(resourceRequest, "own", by+`: alice, `+generation+`: "1"`)+`{cpu: "1", memory: 1Gi, duration: 1h}`, false)
	runtest.Check(t, err)
	s.await(t, requestKind, "team", "own", "alice, as reported by rome", "status", "requestedBy")

	runtest.Check(t, s.edit(t, "alice", requestsPath+"own", `{"metadata": {"annotations": {"`+generation+`": "2"}}, "spec": {"duration": "90m"}}`))
	s.awaitShown(t, "own", "alice, as reported by rome", "changedBy")
	runtest.Check(t, s.edit(t, "bob", requestsPath+"own", `{"spec": {"duration": "2h"}}`))
	s.awaitShown(t, "own", "<nil>", "changedBy")
	for name, patch := range map[string]string{
		"the generation of an edit":     `{"metadata": {"annotations": {"` + generation + `": "3"}}}`,
		"the name of another":           `{"metadata": {"annotations": {"` + by + `": "carol"}}}`,
		"the own name without a change": `{"metadata": {"annotations": {"` + by + `": "bob", "` + generation + `": "3"}}}`,
		"an edit in the name of alice":  `{"metadata": {"annotations": {"` + generation + `": "4"}}, "spec": {"duration": "3h"}}`,
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			wantWords(t, refusalOf(t, s.edit(t, "bob", requestsPath+"own", patch)), []string{"leave them out"})
		})
	}
	runtest.Check(t, s.edit(t, "bob", requestsPath+"own", `{"metadata": {"annotations": {"`+by+`": "bob", "`+generation+`": "4"}}, "spec": {"duration": "3h"}}`))
	s.awaitShown(t, "own", "bob, as reported by rome", "changedBy")
}

// awaitJournal waits until a record of the journal contains a text.
func (s *site) awaitJournal(t *testing.T, text string) error {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(ctx context.Context) (bool, error) {
		var err error
		last, err = s.records(ctx)
		return strings.Contains(last, text), err
	})
	if err != nil {
		return errors.Join(err, fmt.Errorf("no record has %s:\n%s", text, last))
	}
	return nil
}

// records returns all records of the journal as text.
func (s *site) records(ctx context.Context) (string, error) {
	var list corev1.ConfigMapList
	if err := s.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	var out strings.Builder
	for i := range list.Items {
		packed := list.Items[i].BinaryData["records"]
		if packed == nil {
			continue
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(packed))
		if err == nil {
			_, err = io.Copy(&out, unpacked)
		}
		if err != nil {
			return "", err
		}
	}
	return out.String(), nil
}
