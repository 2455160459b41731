package controlplanetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// latestPolicy refuses one ConfigMap.
const latestPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [%[1]s]}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`

// AwaitPolicies waits until the API server enforces every ValidatingAdmissionPolicy that exists with its binding. An
// API server learns of policies and of bindings in the order of their creation. So those that exist are in force
// once one that is created last is.
func AwaitPolicies(t testing.TB, admin client.Client) {
	t.Helper()
	name := "latest-" + rand.String(8)
	objects, err := manifest.Read(fmt.Appendf(nil, latestPolicy, name))
	runtest.Check(t, err)
	runtest.Check(t, manifest.Install(t.Context(), admin, objects))
	refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	runtest.Check(t, wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsInvalid(admin.Create(ctx, refused.DeepCopy(), client.DryRunAll)), nil
	}))
}
