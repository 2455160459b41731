// Package charttest tests the charts of broker and agent.
package charttest

import (
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// strict decodes into Go types and refuses unknown fields.
var strict = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, certmanagerv1.AddToScheme, monitoringv1.AddToScheme, gatewayv1.Install,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// typed returns an object as its Go type.
func typed[T runtime.Object](t *testing.T, obj *unstructured.Unstructured) T {
	t.Helper()
	text, err := obj.MarshalJSON()
	runtest.Check(t, err)
	decoded, _, err := strict.Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", identityOf(obj), err)
	}
	as, ok := decoded.(T)
	if !ok {
		t.Fatalf("%s is a %T", identityOf(obj), decoded)
	}
	return as
}

func deploymentOf(t *testing.T, rendered *chart.Rendered) *appsv1.Deployment {
	t.Helper()
	for _, obj := range rendered.Objects {
		if obj.GetKind() == "Deployment" {
			return typed[*appsv1.Deployment](t, obj)
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}

func TestEveryObjectDecodesStrictly(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		seen := map[string]bool{}
		for _, obj := range allObjects(rendered) {
			typed[runtime.Object](t, obj)
			if id := identityOf(obj); seen[id] {
				t.Errorf("%s is rendered twice", id)
			} else {
				seen[id] = true
			}
		}
	})
}

// Helm, Argo CD and users find objects by their names and labels.
func TestObjectsHaveTheUsualNamesAndLabels(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for _, obj := range allObjects(rendered) {
			if strings.HasSuffix(obj.GetName(), "extra") {
				continue // created by the user
			}
			if obj.GetLabels()["app.kubernetes.io/instance"] == "" || obj.GetLabels()["helm.sh/chart"] == "" {
				t.Errorf("%s lacks the usual labels: %v", identityOf(obj), obj.GetLabels())
			}
			if len(obj.GetName()) > 63 && obj.GetKind() == "Service" {
				t.Errorf("%s has too long a name", identityOf(obj))
			}
		}
	})
}

// webhooksForPeers are called only for what other clusters write.
var webhooksForPeers = []string{"resourceslices.authentication.liqo.io", "certificatesigningrequests.liqo.io"}

// checkOffloadedPodsHook checks that the webhook is called only for new pods of consumers. While the agent is down,
// these cannot start, but finalizers and the cluster's own pods do not depend on it.
func checkOffloadedPodsHook(t *testing.T, hook *admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	for _, rule := range hook.Rules {
		if !slices.Equal(rule.Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}) || !slices.Equal(rule.Resources, []string{"pods"}) {
			t.Errorf("%s is asked about %v of %v", hook.Name, rule.Operations, rule.Resources)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	runtest.Check(t, err)
	for namespace, want := range map[string]bool{"liqo.io/remote-cluster-id": true, "team": false, "liqo.io/remote-cluster-id liqo.io/tenant-namespace": false} {
		set := labels.Set{}
		for key := range strings.FieldsSeq(namespace) {
			set[key] = "rome"
		}
		if selector.Matches(set) != want {
			t.Errorf("%s is asked about namespaces with labels %q: %t", hook.Name, namespace, !want)
		}
	}
	if len(hook.MatchConditions) != 1 || !strings.Contains(hook.MatchConditions[0].Expression, "'ShadowPod'") {
		t.Errorf("%s is asked about pods that no ShadowPod controls: %v", hook.Name, hook.MatchConditions)
	}
	if *hook.FailurePolicy != admissionregistrationv1.Fail || *hook.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		t.Errorf("%s has failurePolicy %s and sideEffects %s", hook.Name, *hook.FailurePolicy, *hook.SideEffects)
	}
}

// boundPods is called when a pod is created with the node of a reservation, which neither the agent nor the scheduler
// does.
const boundPods = "bound.pods.liqo.io"

// checkDeletionHook checks that no deletion waits for the webhook that records who deletes an object.
func checkDeletionHook(t *testing.T, hook *admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	if *hook.FailurePolicy != admissionregistrationv1.Ignore || *hook.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		t.Errorf("%s has failurePolicy %s and sideEffects %s", hook.Name, *hook.FailurePolicy, *hook.SideEffects)
	}
	if len(hook.Rules) != 1 || !slices.Equal(hook.Rules[0].Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}) {
		t.Errorf("%s is asked about %+v", hook.Name, hook.Rules)
	}
}

// The API server must call the webhook that records authors for every user who writes a spec. It must not call the
// webhook for statuses, for finalizers of deleted objects, or for what broker and agent write.
func TestEveryAuthorIsStamped(t *testing.T) {
	for name, test := range map[string]struct {
		values     string
		configured bool
	}{
		"by default":                 {`{}`, true},
		"where webhooks may be away": {`{webhook: {failurePolicy: Ignore}}`, true},
		"without a webhook":          {`{webhook: {enabled: false}}`, false},
	} {
		for _, program := range []string{"broker", "agent"} {
			t.Run(program+" "+name, func(t *testing.T) {
				c := chartsUnderTest[program]
				hooks := mutatingWebhooks(t, c, test.values, "requested-by.broker.fluidos.eu", "requested-by.resourcerequests.liqo.io")
				if configured := len(hooks) == 1; configured != test.configured {
					t.Fatalf("%d webhooks", len(hooks))
				}
				policies := 0
				for _, obj := range mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, test.values).Objects {
					if strings.HasSuffix(obj.GetName(), "-actors") {
						policies++
					}
				}
				if policies != 2 {
					t.Errorf("%d objects of the policy, want the policy and its binding", policies)
				}
				for _, hook := range hooks {
					if len(hook.MatchConditions) != 2 || hook.NamespaceSelector != nil || hook.ObjectSelector != nil || *hook.SideEffects != admissionregistrationv1.SideEffectClassNone {
						t.Errorf("%+v", hook)
					}
				}
			})
		}
	}
}

// A webhook that blocks a finalizer or the broker itself would block its own recovery.
func TestWebhooksCannotDeadlock(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		account := deploymentOf(t, rendered).Spec.Template.Spec.ServiceAccountName
		for _, obj := range rendered.Objects {
			if obj.GetKind() != "ValidatingWebhookConfiguration" {
				continue
			}
			for _, hook := range typed[*admissionregistrationv1.ValidatingWebhookConfiguration](t, obj).Webhooks {
				if hook.Name == "offloaded-pods.liqo.io" {
					checkOffloadedPodsHook(t, &hook)
					continue
				}
				if strings.HasPrefix(hook.Name, "deleted-by.") {
					checkDeletionHook(t, &hook)
					continue
				}
				if hook.Name == "shadowpods.offloading.liqo.io" {
					if *hook.FailurePolicy != admissionregistrationv1.Ignore {
						t.Errorf("%s has failurePolicy %s", hook.Name, *hook.FailurePolicy)
					}
					continue
				}
				if slices.Contains(webhooksForPeers, hook.Name) || hook.Name == boundPods {
					continue
				}
				conditions := ""
				for _, c := range hook.MatchConditions {
					conditions += c.Expression + "\n"
				}
				for _, want := range []string{
					"!has(object.metadata.deletionTimestamp)",
					"request.userInfo.username != 'system:serviceaccount:" + namespace + ":" + account + "'",
				} {
					if !strings.Contains(conditions, want) {
						t.Errorf("%s lacks the condition %q, it has\n%s", hook.Name, want, conditions)
					}
				}
				if hook.NamespaceSelector != nil || hook.ObjectSelector != nil {
					t.Errorf("%s can be opted out of", hook.Name)
				}
				if *hook.SideEffects != admissionregistrationv1.SideEffectClassNone || *hook.MatchPolicy != admissionregistrationv1.Equivalent {
					t.Errorf("%s has sideEffects %s and matchPolicy %s", hook.Name, *hook.SideEffects, *hook.MatchPolicy)
				}
			}
		}
	})
}

// Each provider chooses the port of its API server, so by default the agent reaches every port;
// an administrator may list the ports instead.
func TestAgentReachesProvidersOnAnyPort(t *testing.T) {
	tests := map[string]struct {
		values string
		ports  []string
	}{
		"by default every port":      {`{}`, []string{"53/UDP", "53/TCP", "any/TCP"}},
		"only ports that are listed": {`{networkPolicy: {apiServerPorts: [16443]}}`, []string{"53/UDP", "53/TCP", "16443/TCP", "8443/TCP", "8444/TCP"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var ports []string
			c := chartsUnderTest["agent"]
			for _, obj := range mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, test.values).Objects {
				if obj.GetKind() != "NetworkPolicy" {
					continue
				}
				for _, rule := range typed[*networkingv1.NetworkPolicy](t, obj).Spec.Egress {
					for _, p := range rule.Ports {
						port := "any"
						if p.Port != nil {
							port = p.Port.String()
						}
						ports = append(ports, port+"/"+string(*p.Protocol))
					}
				}
			}
			if diff := cmp.Diff(test.ports, ports); diff != "" {
				t.Errorf("egress (-want +got):\n%s", diff)
			}
		})
	}
}
