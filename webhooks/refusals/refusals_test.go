package refusals

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// resources maps kinds to resource names.
var resources = map[string]string{
	"Reservation": "reservations", "ClusterAdvertisement": "clusteradvertisements", "BrokerConfig": "brokerconfigs",
	"ResourceRequest": "resourcerequests", "Advertisement": "advertisements",
	"ReservationInstruction": "reservationinstructions", "ProviderInstruction": "providerinstructions",
	"LendingPolicy": "lendingpolicies", "Quote": "quotes",
}

func TestInvalidInputIsRefusedAndChangesNothing(t *testing.T) {
	s := newSite(t)
	s.await(t, advertKind, namespace, "rome", "Active", "status", "phase")
	s.apply(t, standing)
	s.await(t, reservationKind, "default", "held", "Reserved", "status", "phase")
	s.apply(t, asked)
	s.await(t, requestKind, "team", "mine", "Reserved", "status", "phase")
	t.Run("what is right is admitted", s.testAdmitted)
	t.Run("a dry run says who would serve", s.testPreviewed)
	t.Run("a Quote is held, and taken over once", s.testQuoted)

	was := s.settled(t)
	unchanged := func(t *testing.T) {
		t.Helper()
		now := s.everything(t)
		if diff := cmp.Diff(was, now); diff != "" {
			t.Errorf("it changed something (-before +after):\n%s", diff)
		}
		was = now
	}
	for user, tables := range map[string][]map[string]wrong{"": {bySchema, byWebhook}, "alice": {byWebhookOfAlice}} {
		for _, table := range tables {
			for name, tc := range table {
				t.Run(name, func(t *testing.T) {
					said := s.create(t, user, tc.manifest)
					wantWords(t, said, tc.want)
					wantNoRiddle(t, tc.manifest, said)
				})
			}
		}
	}
	unchanged(t)
	for name, tc := range edits {
		t.Run("edit: "+name, func(t *testing.T) {
			err := s.as(t, "").Patch(types.MergePatchType).AbsPath(tc.path).Param("fieldValidation", "Strict").
				Body([]byte(tc.patch)).Do(t.Context()).Error()
			wantWords(t, refusalOf(t, err), tc.want)
		})
	}
	unchanged(t)
	for name, tc := range calls {
		t.Run("call: "+name, func(t *testing.T) {
			wantWords(t, s.refused(t, tc), tc.want)
		})
	}
	unchanged(t)
	t.Run("unavailable webhooks block no deletion", s.testAway)
	t.Run("without webhooks nothing more is given", s.testBypassed)
}

// create writes a manifest without parsing it, so that the API server sees exactly what a user
// wrote. It fails the test unless the API server refuses the manifest, and returns the message of
// the refusal.
func (s *site) create(t *testing.T, user, text string) string {
	t.Helper()
	_, err := s.post(t, user, text, false)
	return refusalOf(t, err)
}

func (s *site) post(t *testing.T, user, text string, dryRun bool) (warnings []string, err error) {
	t.Helper()
	// Parse only what the path needs. The server must judge duplicate keys.
	objects, err := manifest.Read([]byte(firstKeys(text)))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v in\n%s", len(objects), err, text)
	}
	obj := objects[0]
	path := "/apis/" + obj.GetAPIVersion()
	if ns := obj.GetNamespace(); ns != "" {
		path += "/namespaces/" + ns
	}
	request := s.as(t, user).Post().AbsPath(path+"/"+resources[obj.GetKind()]).
		Param("fieldValidation", "Strict").SetHeader("Content-Type", "application/yaml").Body([]byte(text))
	if dryRun {
		request = request.Param("dryRun", "All")
	}
	result := request.Do(t.Context())
	for _, w := range result.Warnings() {
		warnings = append(warnings, w.Text)
	}
	return warnings, result.Error()
}

// firstKeys returns a manifest without its spec.
func firstKeys(text string) string {
	before, _, _ := strings.Cut(text, "\nspec:")
	return before
}

// refusalOf fails unless the API server refused the request, and returns its message.
func refusalOf(t *testing.T, err error) string {
	t.Helper()
	switch {
	case err == nil:
		t.Fatal("it was accepted")
	case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsForbidden(err):
		t.Errorf("it is refused for another reason: %v", err)
	}
	return err.Error()
}

func wantWords(t *testing.T, said string, want []string) {
	t.Helper()
	for _, words := range want {
		if !strings.Contains(said, words) {
			t.Errorf("the refusal does not say %q:\n%s", words, said)
		}
	}
}

// wantNoRiddle fails the test if a refusal contains the API server's internal messages about
// expressions, or a regular expression. Only agents write instructions, and no webhook reviews them.
func wantNoRiddle(t *testing.T, manifest, said string) {
	t.Helper()
	riddles := []string{"type conversion error", "evaluating rule", "no such overload"}
	if !strings.HasPrefix(manifest, providerInstruction) {
		riddles = append(riddles, "should match '")
	}
	for _, riddle := range riddles {
		if strings.Contains(said, riddle) {
			t.Errorf("the refusal says %q:\n%s", riddle, said)
		}
	}
}

// settled returns everything once it has not changed for a while.
func (s *site) settled(t *testing.T) map[string]string {
	t.Helper()
	const quiet = 100
	last, same := s.everything(t), 0
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, false, func(context.Context) (bool, error) {
		now := s.everything(t)
		if same++; !cmp.Equal(last, now) {
			last, same = now, 0
		}
		return same == quiet, nil
	})
	if err != nil {
		t.Fatalf("it does not come to rest: %v", err)
	}
	return last
}

// everything returns the versions of all objects of the product and of the journal.
func (s *site) everything(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(list client.ObjectList, options ...client.ListOption) {
		runtest.Check(t, s.List(t.Context(), list, options...))
	}
	var journal corev1.ConfigMapList
	add(&journal, client.InNamespace(namespace))
	for i := range journal.Items {
		out["ConfigMap "+journal.Items[i].Name] = journal.Items[i].ResourceVersion
	}
	for kind := range resources {
		list := &unstructured.UnstructuredList{}
		version := brokerv1alpha1.GroupVersion
		if kind != "Reservation" && kind != "ClusterAdvertisement" && kind != "BrokerConfig" {
			version = agentv1alpha1.GroupVersion
		}
		list.SetGroupVersionKind(version.WithKind(kind + "List"))
		add(list)
		for i := range list.Items {
			o := &list.Items[i]
			at := o.GetResourceVersion()
			if kind == "Advertisement" {
				at = fmt.Sprint(o.Object["spec"]) // the agent records every publication in the status, so only the spec counts
			}
			out[kind+" "+o.GetNamespace()+"/"+o.GetName()] = at
		}
	}
	return out
}
