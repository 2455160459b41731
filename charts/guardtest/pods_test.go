package guardtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// toleration returns a change that replaces the pod's tolerations by one.
func toleration(pairs ...any) change {
	t := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		t[pairs[i].(string)] = pairs[i+1]
	}
	return set([]any{t}, "tolerations")
}

func antiAffinity(term map[string]any) change {
	term["topologyKey"] = "kubernetes.io/hostname"
	return set([]any{term}, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
}

func volume(name string, source map[string]any) change {
	return set([]any{map[string]any{"name": "v", name: source}}, "volumes")
}

func inits(containers ...any) change { return set(containers, "initContainers") }

func projected(source string, content map[string]any) change {
	return volume("projected", map[string]any{"sources": []any{map[string]any{source: content}}})
}

func amounts(requests, limits map[string]any) change {
	return inContainer(map[string]any{"requests": requests, "limits": limits}, "resources")
}

// sidecar returns an init container that keeps running.
func sidecar(name string) map[string]any {
	return container(name, map[string]any{"restartPolicy": "Always"})
}

// attacksWithPods are ShadowPods that are refused for all values, with part of the reason.
var attacksWithPods = map[string]struct {
	change change
	want   string
}{
	"negative requests":              {amounts(map[string]any{"cpu": "-100", "memory": "64Mi"}, nil), "resources has an amount that is negative"},
	"negative limits":                {amounts(map[string]any{"cpu": "1", "memory": "64Mi"}, map[string]any{"cpu": "-1"}), "negative"},
	"a negative extended resource":   {amounts(map[string]any{"cpu": "1", "memory": "64Mi", "nvidia.com/gpu": int64(-8)}, nil), "negative"},
	"an amount that is slow to sum":  {amounts(map[string]any{"cpu": "1e9999999", "memory": "64Mi"}, nil), "out of range"},
	"zero requests":                  {amounts(map[string]any{"cpu": "0", "memory": "0"}, nil), "container main: resources.requests must have"},
	"a request of almost nothing":    {amounts(map[string]any{"cpu": "1n", "memory": "64Mi"}, nil), "at least 1m of cpu"},
	"no requests":                    {inContainer(map[string]any{}, "resources"), "resources.requests must have"},
	"no memory request":              {amounts(map[string]any{"cpu": "1"}, nil), "and memory"},
	"a limit that becomes a request": {amounts(map[string]any{"cpu": "1", "memory": "64Mi"}, map[string]any{"nvidia.com/gpu": "1"}), "every resource in resources.limits"},
	"an init container that requests nothing": {
		inits(container("first", map[string]any{"resources": map[string]any{}})), "container first: resources.requests must have"},
	"a sidecar that requests nothing": {
		inits(container("side", map[string]any{"restartPolicy": "Always", "resources": map[string]any{}})), "container side"},
	"negative overhead":                    {set(map[string]any{"cpu": "-8"}, "overhead"), "spec.pod.overhead may not be set"},
	"resources of the whole pod":           {set(map[string]any{"requests": map[string]any{"cpu": "8"}}, "resources"), "spec.pod.resources may not be set"},
	"no containers":                        {set([]any{}, "containers"), "1 to 32 containers"},
	"a node of its choice":                 {set("any", "nodeName"), "spec.pod.nodeName"},
	"a priority":                           {set(int64(1000), "priority"), "spec.pod.priority"},
	"a priority class":                     {set("system-cluster-critical", "priorityClassName"), "spec.pod.priorityClassName"},
	"a preemption policy":                  {set("PreemptLowerPriority", "preemptionPolicy"), "spec.pod.preemptionPolicy"},
	"a scheduler of its choice":            {set("mine", "schedulerName"), "spec.pod.schedulerName"},
	"scheduling gates":                     {set([]any{map[string]any{"name": "a"}}, "schedulingGates"), "spec.pod.schedulingGates"},
	"resource claims":                      {set([]any{map[string]any{"name": "a"}}, "resourceClaims"), "spec.pod.resourceClaims"},
	"an ephemeral container":               {set([]any{map[string]any{"name": "a"}}, "ephemeralContainers"), "spec.pod.ephemeralContainers"},
	"a deprecated service account":         {set("cluster-admin", "serviceAccount"), "spec.pod.serviceAccount "},
	"another operating system":             {set("windows", "os", "name"), "spec.pod.os"},
	"user namespaces turned off":           {set(false, "hostUsers"), "spec.pod.hostUsers"},
	"a host name that overrides":           {set("a", "hostnameOverride"), "spec.pod.hostnameOverride"},
	"the host's network":                   {set(true, "hostNetwork"), "spec.pod.hostNetwork"},
	"the host's processes":                 {set(true, "hostPID"), "hostPID"},
	"the host's memory":                    {set(true, "hostIPC"), "hostIPC"},
	"a service account":                    {set("deployer", "serviceAccountName"), "spec.pod.serviceAccountName is deployer"},
	"the default service account":          {set("default", "serviceAccountName"), "spec.pod.serviceAccountName is default"},
	"a token":                              {set(true, "automountServiceAccountToken"), "spec.pod.automountServiceAccountToken must be false"},
	"a projected token":                    {projected("serviceAccountToken", map[string]any{"path": "token"}), "volume v: projected.sources"},
	"a projected certificate":              {projected("podCertificate", map[string]any{"signerName": "a/b", "keyType": "ED25519"}), "volume v: projected.sources"},
	"a runtime class":                      {set("sysbox", "runtimeClassName"), "spec.pod.runtimeClassName is sysbox"},
	"a grace period of a year":             {set(int64(31536000), "terminationGracePeriodSeconds"), "terminationGracePeriodSeconds is 31536000, this cluster allows 0 to 600"},
	"a negative grace period":              {set(int64(-1), "terminationGracePeriodSeconds"), "terminationGracePeriodSeconds is -1"},
	"a host path":                          {volume("hostPath", map[string]any{"path": "/"}), "volume v"},
	"an NFS export":                        {volume("nfs", map[string]any{"server": "10.0.0.1", "path": "/"}), "volume v is of a type"},
	"an inline CSI volume":                 {volume("csi", map[string]any{"driver": "secrets-store.csi.k8s.io"}), "volume v is of a type"},
	"an unchecked claim":                   {volume("ephemeral", map[string]any{"volumeClaimTemplate": map[string]any{"spec": map[string]any{}}}), "volume v is of a type"},
	"a negative size limit":                {volume("emptyDir", map[string]any{"sizeLimit": "-1"}), "volume v: emptyDir.sizeLimit"},
	"a toleration of everything":           {toleration("operator", "Exists"), "may not tolerate every taint (effect any); name the keys"},
	"a toleration of all evictions":        {toleration("operator", "Exists", "effect", "NoExecute"), "every taint"},
	"a toleration of control planes":       {toleration("key", "node-role.kubernetes.io/control-plane", "operator", "Exists"), "node-role.kubernetes.io/control-plane"},
	"a toleration of cordoned nodes":       {toleration("key", "node.kubernetes.io/unschedulable", "operator", "Exists"), "node.kubernetes.io/unschedulable"},
	"an endless toleration of dead nodes":  {toleration("key", "node.kubernetes.io/not-ready", "operator", "Exists", "effect", "NoExecute"), "node.kubernetes.io/not-ready"},
	"a toleration of virtual nodes":        {toleration("key", "virtual-node.liqo.io/not-allowed", "operator", "Exists"), "virtual-node.liqo.io/not-allowed"},
	"a toleration of the agent's taint":    {toleration("key", "broker.fluidos.eu/ending", "operator", "Exists"), "broker.fluidos.eu/ending"},
	"a toleration of nodes that go":        {toleration("key", "ToBeDeletedByClusterAutoscaler", "operator", "Exists"), "ToBeDeletedByClusterAutoscaler"},
	"anti-affinity with every namespace":   {antiAffinity(map[string]any{"namespaceSelector": map[string]any{}}), "podAntiAffinity may select pods of its own namespace"},
	"anti-affinity with another namespace": {antiAffinity(map[string]any{"namespaces": []any{"kube-system"}}), "podAntiAffinity may select"},
	"affinity with pods":                   {set([]any{}, "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"), "spec.pod.affinity may have"},
	"preferred anti-affinity with every namespace": {
		set([]any{map[string]any{"weight": int64(1), "podAffinityTerm": map[string]any{"topologyKey": "a", "namespaceSelector": map[string]any{}}}},
			"affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"), "podAntiAffinity may select"},
	"a privileged container":           {inContainer(true, "securityContext", "privileged"), "container main: securityContext.privileged must be false"},
	"a port of the host":               {inContainer([]any{map[string]any{"containerPort": int64(80), "hostPort": int64(10250), "protocol": "TCP"}}, "ports"), "container main: ports must have no hostPort"},
	"a probe of another host":          {inContainer(map[string]any{"host": "169.254.169.254", "port": int64(80)}, "livenessProbe", "httpGet"), "a probe or lifecycle hook must have no host"},
	"all capabilities":                 {inContainer([]any{"ALL"}, "securityContext", "capabilities", "add"), "capabilities.add must not have ALL"},
	"a capability after harmless ones": {inContainer([]any{"KILL", "SYS_ADMIN"}, "securityContext", "capabilities", "add"), "capabilities.add must not have SYS_ADMIN"},
	"an unconfined system call filter": {set("Unconfined", "securityContext", "seccompProfile", "type"), "seccompProfile.type"},
	"an unmasked proc":                 {inContainer("Unmasked", "securityContext", "procMount"), "procMount"},
	"an unsafe sysctl":                 {set([]any{map[string]any{"name": "kernel.msgmax", "value": "1"}}, "securityContext", "sysctls"), "kernel.msgmax"},
	"a process of a Windows host":      {inContainer(true, "securityContext", "windowsOptions", "hostProcess"), "hostProcess"},
	"Istio's init container": {
		inits(container("istio-init", map[string]any{"securityContext": map[string]any{"capabilities": map[string]any{"add": []any{"NET_ADMIN", "NET_RAW"}}}})),
		"container istio-init: securityContext.capabilities.add must not have NET_ADMIN; change the pod: this cluster enforces the Pod Security Standard baseline"},
}

// honestPods are ShadowPods of ordinary workloads.
var honestPods = map[string]change{
	"of a Deployment": func(testing.TB, map[string]any) {},
	"with an init container that is larger, and comes second": inits(
		container("small", requests("50m", "16Mi")), container("large", requests("900m", "256Mi"))),
	"of a Job":                     set("Never", "restartPolicy"),
	"of a CronJob with a deadline": set(int64(3600), "activeDeadlineSeconds"),
	"of a StatefulSet with a claim": func(t testing.TB, pod map[string]any) {
		volume("persistentVolumeClaim", map[string]any{"claimName": "data-db-0"})(t, pod)
		set("db-0", "hostname")(t, pod)
		set("db", "subdomain")(t, pod)
	},
	"with what a service account's volume becomes": set([]any{map[string]any{"name": "kube-api-access-abcde", "projected": map[string]any{"sources": []any{
		map[string]any{"configMap": map[string]any{"name": "kube-root-ca.crt.rome"}}, map[string]any{"downwardAPI": map[string]any{}},
		map[string]any{"secret": map[string]any{"name": "web-token"}},
	}}}}, "volumes"),
	"with everything that Liqo reflects": func(t testing.TB, pod map[string]any) {
		set([]any{map[string]any{"ip": "10.0.0.1", "hostnames": []any{"kubernetes.default"}}}, "hostAliases")(t, pod)
		set([]any{map[string]any{"name": "registry"}}, "imagePullSecrets")(t, pod)
		set([]any{map[string]any{"conditionType": "example.com/ready"}}, "readinessGates")(t, pod)
		set(true, "setHostnameAsFQDN")(t, pod)
		set(true, "shareProcessNamespace")(t, pod)
		set([]any{"example.com"}, "dnsConfig", "searches")(t, pod)
		set(map[string]any{"pool": "lent"}, "nodeSelector")(t, pod)
		set([]any{map[string]any{"maxSkew": int64(1), "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}}, "topologySpreadConstraints")(t, pod)
		antiAffinity(map[string]any{"labelSelector": map[string]any{"matchLabels": map[string]any{"app": "web"}}})(t, pod)
	},
	"with a GPU": func(t testing.TB, pod map[string]any) {
		gpu := map[string]any{"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": int64(1)}
		amounts(gpu, gpu)(t, pod)
		toleration("key", "nvidia.com/gpu", "operator", "Exists", "effect", "NoSchedule")(t, pod)
	},
	"with an emptyDir in memory": volume("emptyDir", map[string]any{"medium": "Memory", "sizeLimit": "64Mi"}),
	"with Istio's sidecar where CNI prepares the network": func(t testing.TB, pod map[string]any) {
		context := map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}, "runAsUser": int64(1337), "runAsNonRoot": true}
		proxy := sidecar("istio-proxy")
		proxy["securityContext"] = context
		inits(container("istio-validation", map[string]any{"securityContext": context}), proxy)(t, pod)
	},
}

func (c *cluster) wantRefused(name, want string, err error) {
	c.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		c.Errorf("%s: want it forbidden with %q, got: %.600s", name, want, fmt.Sprint(err))
	}
}

func (c *cluster) testPodsStayWithinTheirGrant() {
	c.Helper()
	s := c.openSite("pods", "")
	for name, test := range attacksWithPods {
		s.wantRefused(name, test.want, s.peer.Create(c.Context(), s.shadowPod("attack", test.change), client.DryRunAll))
	}
	for name, change := range honestPods {
		if err := s.peer.Create(c.Context(), s.shadowPod("honest", change), client.DryRunAll); err != nil {
			c.Errorf("a pod %s is refused: %v", name, err)
		}
	}
	s.testLife()
	s.testLabels()
	s.testSizes()
	s.testPlacement()
	c.openSite("larger", `{guard: {limits: {manifestSize: 1048576}}}`).testManyContainers()
	c.testWithoutWebhook()
	c.testWhatOperatorsAllow()
}

// testLife follows a ShadowPod of an honest virtual kubelet, and tries what a hostile one may not do to it.
func (s *site) testLife() {
	s.Helper()
	ctx := s.Context()
	pod := s.shadowPod("life")
	s.check(s.peer.Create(ctx, pod))
	pod.SetLabels(map[string]string{"offloading.liqo.io/nodename": slice, "app": "renamed"})
	pod.SetAnnotations(map[string]string{"example.com/note": "changed"})
	s.check(s.peer.Update(ctx, pod))
	patch := func(text string) error {
		return s.peer.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a finalizer later":            {patch(`{"metadata":{"finalizers":["example.com/stay"]}}`), "metadata.finalizers may not be set"},
		"an owner later":               {patch(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"b"}]}}`), "metadata.ownerReferences"},
		"another slice's pod later":    {patch(`{"metadata":{"labels":{"offloading.liqo.io/nodename":"res-bbbbbbbbbb-1"}}}`), "label offloading.liqo.io/nodename must be " + slice},
		"a larger pod later":           {patch(`{"spec":{"pod":{"activeDeadlineSeconds":5}}}`), "spec of a ShadowPod and its AppArmor annotations cannot change"},
		"AppArmor turned off later":    {patch(`{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/main":"unconfined"}}}`), "AppArmor"},
		"a deletion in the foreground": {s.peer.Delete(ctx, pod.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground)), "propagationPolicy Background"},
		"a deletion that orphans":      {s.peer.Delete(ctx, pod.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationOrphan)), "propagationPolicy Background"},
	} {
		s.wantRefused(name, test.want, test.err)
	}
	// An administrator of this cluster deletes it in the foreground. The consumer cannot delete it again.
	s.check(s.Delete(ctx, pod.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	s.wantRefused("a second deletion", "is being deleted already", s.peer.Delete(ctx, pod.DeepCopy()))
	other := s.shadowPod("ordinary")
	s.check(s.peer.Create(ctx, other))
	s.check(s.peer.Delete(ctx, other, client.PropagationPolicy(metav1.DeletePropagationBackground)))

	s.giveRight("Delete")
	s.awaitRefusal("user "+user+" has no live reservation", s.shadowPod("late"))
	s.giveRight("Write")
	s.check(wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, hangLimit, true, func(ctx context.Context) (bool, error) {
		return s.peer.Create(ctx, s.shadowPod("late"), client.DryRunAll) == nil, nil
	}))
}

func (s *site) awaitRefusal(want string, obj *unstructured.Unstructured) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, hangLimit, true, func(ctx context.Context) (bool, error) {
		last = s.peer.Create(ctx, obj.DeepCopy(), client.DryRunAll)
		return last != nil && strings.Contains(last.Error(), want), nil
	})
	if err != nil {
		s.Fatalf("waiting for %q: %v; last: %v", want, err, last)
	}
}

func (s *site) testLabels() {
	s.Helper()
	for name, label := range map[string]string{"another slice": "res-bbbbbbbbbb-1", "no slice": "", "a part of the own": strings.TrimSuffix(slice, "-1")} {
		pod := s.shadowPod("stolen")
		pod.SetLabels(map[string]string{"offloading.liqo.io/origin": consumer, "offloading.liqo.io/nodename": label})
		s.wantRefused("a pod of "+name, "label offloading.liqo.io/nodename must be "+slice, s.peer.Create(s.Context(), pod, client.DryRunAll))
	}
	pod := s.shadowPod("stolen")
	pod.SetLabels(map[string]string{"offloading.liqo.io/nodename": slice, "liqo.io/creator-user": "res-bbbbbbbbbb-1-0123456789ab"})
	s.wantRefused("a pod that another identity is said to have made", "label liqo.io/creator-user must be "+user, s.peer.Create(s.Context(), pod, client.DryRunAll))
	pod.SetLabels(map[string]string{"offloading.liqo.io/nodename": slice, "liqo.io/creator-user": user})
	s.check(s.peer.Create(s.Context(), pod, client.DryRunAll))
	for key, value := range map[string]string{
		"broker.fluidos.eu/placeholder": "true", "app.kubernetes.io/managed-by": "liqo-resource-broker",
	} {
		pod := s.shadowPod("stolen")
		pod.SetLabels(map[string]string{"offloading.liqo.io/nodename": slice, key: value})
		s.wantRefused("a pod with label "+key, "by which this cluster finds its own", s.peer.Create(s.Context(), pod, client.DryRunAll))
	}
	pod = s.shadowPod("stolen")
	pod.SetFinalizers([]string{"orphan"})
	s.wantRefused("a pod with a finalizer", "metadata.finalizers", s.peer.Create(s.Context(), pod, client.DryRunAll))
}

// testPlacement relabels a running pod as Liqo does for a ShadowPod of the same name by another slice.
func (s *site) testPlacement() {
	s.Helper()
	s.create(s.object("v1", "ServiceAccount", "default"))
	pod := s.object("v1", "Pod", "placed")
	pod.SetLabels(map[string]string{"offloading.liqo.io/nodename": slice, "liqo.io/managed-by": "shadowpod"})
	pod.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "placed", UID: "a", Controller: new(true),
	}})
	pod.Object["spec"] = map[string]any{"automountServiceAccountToken": false, "containers": []any{container("main")}}
	s.create(pod)
	label := func(key, value string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value)
		return s.Patch(s.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
	}
	s.check(wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, hangLimit, true, func(context.Context) (bool, error) {
		return label("offloading.liqo.io/nodename", `"res-bbbbbbbbbb-1"`) != nil, nil
	}))
	const want = "of a consumer's pod cannot change"
	s.wantRefused("a pod that moves to another slice", want, label("offloading.liqo.io/nodename", `"res-bbbbbbbbbb-1"`))
	s.wantRefused("a pod that leaves its slice", want, label("offloading.liqo.io/nodename", "null"))
	s.wantRefused("a pod that hides from the agent", want, label("liqo.io/managed-by", `"nobody"`))
	s.wantRefused("a pod that another identity is said to have made", want, label("liqo.io/creator-user", `"nobody"`))
	s.check(label("app", `"renamed"`))
	for kind, version := range map[string]string{"Pod": "v1", "EndpointSlice": "discovery.k8s.io/v1"} {
		own := s.object(version, kind, "own")
		own.Object["spec"] = pod.Object["spec"]
		if kind == "EndpointSlice" {
			delete(own.Object, "spec")
			own.Object["addressType"], own.Object["endpoints"] = "IPv4", []any{}
		}
		s.create(own)
		patch := func(text string) error {
			return s.Patch(s.Context(), own.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
		}
		s.wantRefused("taking over a "+kind, "own in namespace "+s.namespace+" was not made by Liqo", patch(`{"metadata":{"labels":{"app":"web","liqo.io/managed-by":"shadow"}}}`))
		s.check(patch(`{"metadata":{"labels":{"app":"web"}}}`))
	}
}

// testSizes fills a ShadowPod up to guard.limits.manifestSize.
func (s *site) testSizes() {
	s.Helper()
	create := func(amount int) error {
		env := []any{map[string]any{"name": "E", "value": strings.Repeat("x", amount)}}
		return s.peer.Create(s.Context(), s.shadowPod("sized", inContainer(env, "env")), client.DryRunAll)
	}
	if err := create(30 << 10); err != nil {
		s.Errorf("a pod of 30 KiB is refused: %v", err)
	}
	s.wantRefused("a pod of more than 32 KiB", "bytes with its metadata, this cluster allows 32768 (guard.limits.manifestSize)", create(32<<10))
	pod := s.shadowPod("grows")
	s.check(s.peer.Create(s.Context(), pod))
	pod.SetAnnotations(map[string]string{"a": strings.Repeat("x", 32<<10)})
	s.wantRefused("a pod that grows later", "(guard.limits.manifestSize)", s.peer.Update(s.Context(), pod))
}

// testManyContainers checks that the policies judge large pods, instead of refusing them because the judgement costs too much.
func (s *site) testManyContainers() {
	s.Helper()
	create := func(containers int, content map[string]any, changes ...change) error {
		changes = append([]change{
			set(many(containers, func(i int) any { return container(fmt.Sprintf("c%d", i), content) }), "containers"),
			set(many(128, func(i int) any { return map[string]any{"name": fmt.Sprintf("v%d", i), "emptyDir": map[string]any{}} }), "volumes"),
			set(many(64, func(i int) any { return map[string]any{"key": fmt.Sprintf("example.com/p%d", i), "operator": "Exists"} }), "tolerations"),
		}, changes...)
		return s.peer.Create(s.Context(), s.shadowPod("large", changes...), client.DryRunAll)
	}
	content := map[string]any{
		"env": many(100, func(i int) any {
			return map[string]any{"name": fmt.Sprintf("E%d", i), "value": "a value of some length"}
		}),
		"ports":           many(20, func(i int) any { return map[string]any{"containerPort": int64(8000 + i), "protocol": "TCP"} }),
		"securityContext": map[string]any{"capabilities": map[string]any{"drop": []any{"ALL"}, "add": []any{"CHOWN", "KILL", "SETUID", "SETGID"}}},
	}
	if err := create(32, content); err != nil {
		s.Errorf("a large honest pod is refused: %v", err)
	}
	s.wantRefused("a large pod with a privileged container at its end", "container c31: securityContext.privileged", create(32, content, func(_ testing.TB, pod map[string]any) {
		all := pod["containers"].([]any)
		all[len(all)-1].(map[string]any)["securityContext"] = map[string]any{"privileged": true}
	}))
	s.wantRefused("33 containers", "1 to 32 containers", create(33, nil))
	s.wantRefused("1000 containers", "1 to 32 containers", create(1000, nil))
}

func many(n int, item func(i int) any) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = item(i)
	}
	return list
}

// testWithoutWebhook tests Liqo's quota alone, which does not count some containers.
func (c *cluster) testWithoutWebhook() {
	c.Helper()
	s := c.openSite("no-webhook", "{webhook: {enabled: false}}", "-pods")
	create := func(changes ...change) error {
		return s.peer.Create(s.Context(), s.shadowPod("init", changes...), client.DryRunAll)
	}
	s.wantRefused("a sidecar", "init container proxy: restartPolicy Always is not counted by Liqo", create(inits(sidecar("proxy"))))
	s.wantRefused("an init container that Liqo rounds away", "an init container requests more cpu than Liqo counts",
		create(inits(container("a", requests("1m", "64Mi")), container("b", requests("999m", "64Mi")))))
	for name, order := range map[string]change{
		"the largest first":              inits(container("a", requests("999m", "64Mi")), container("b", requests("1m", "64Mi"))),
		"another number of cores":        inits(container("a", requests("500m", "64Mi")), container("b", requests("2500m", "64Mi")), container("c", requests("2", "64Mi"))),
		"none above the main containers": inits(container("a", requests("1m", "64Mi")), container("b", requests("100m", "64Mi"))),
		"no init containers":             func(testing.TB, map[string]any) {},
	} {
		if err := create(order); err != nil {
			c.Errorf("init containers with %s: %v", name, err)
		}
	}
}

func (c *cluster) testWhatOperatorsAllow() {
	c.Helper()
	s := c.openSite("allowed-pods", `{guard: {podSecurity: off, volumes: [hostPath, emptyDir, projected], tolerations: [node-role.kubernetes.io/control-plane],
		runtimeClasses: [gvisor], serviceAccounts: [deployer], limits: {terminationGracePeriodSeconds: 7200}}}`)
	for name, changes := range map[string][]change{
		"a privileged container with a host path": {inContainer(true, "securityContext", "privileged"), volume("hostPath", map[string]any{"path": "/"})},
		"a toleration of control planes":          {toleration("key", "node-role.kubernetes.io/control-plane", "operator", "Exists")},
		"a runtime class":                         {set("gvisor", "runtimeClassName")},
		"a service account and its token":         {set("deployer", "serviceAccountName"), set(true, "automountServiceAccountToken"), projected("serviceAccountToken", map[string]any{"path": "t"})},
		"a grace period of two hours":             {set(int64(7200), "terminationGracePeriodSeconds")},
	} {
		if err := s.peer.Create(s.Context(), s.shadowPod("allowed", changes...), client.DryRunAll); err != nil {
			c.Errorf("%s: %v", name, err)
		}
	}
	for name, test := range map[string]struct {
		changes []change
		want    string
	}{
		"a volume that is not listed":        {[]change{volume("nfs", map[string]any{"server": "a", "path": "/"})}, "it allows hostPath, emptyDir, projected"},
		"a token of another service account": {[]change{projected("serviceAccountToken", map[string]any{"path": "t"})}, "projected.sources"},
		"another runtime class":              {[]change{set("sysbox", "runtimeClassName")}, "allows gvisor"},
		"three hours":                        {[]change{set(int64(10800), "terminationGracePeriodSeconds")}, "0 to 7200"},
	} {
		s.wantRefused(name, test.want, s.peer.Create(s.Context(), s.shadowPod("refused", test.changes...), client.DryRunAll))
	}
}
