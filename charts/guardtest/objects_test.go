package guardtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// objects are consumers' objects as YAML without metadata. want is part of the refusal, "" if the default values
// allow the object.
var objects = map[string]struct{ text, want string }{
	"a Service":                    {`{apiVersion: v1, kind: Service, spec: {selector: {app: web}, ports: [{port: 80}]}}`, ""},
	"a headless Service":           {`{apiVersion: v1, kind: Service, spec: {clusterIP: None, ports: [{port: 80}]}}`, ""},
	"a ConfigMap":                  {`{apiVersion: v1, kind: ConfigMap, data: {a: b}, binaryData: {c: AAAA}}`, ""},
	"a Secret":                     {`{apiVersion: v1, kind: Secret, stringData: {a: b}}`, ""},
	"a registry's Secret":          {`{apiVersion: v1, kind: Secret, type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: e30=}}`, ""},
	"endpoints":                    {shadowSlice("10.0.0.7", "2001:db8::7"), ""},
	"a Service with external IPs":  {`{apiVersion: v1, kind: Service, spec: {externalIPs: [8.8.8.8], ports: [{port: 80}]}}`, "spec.externalIPs has 8.8.8.8"},
	"a NodePort":                   {`{apiVersion: v1, kind: Service, spec: {type: NodePort, ports: [{port: 80}]}}`, "spec.type is NodePort, this cluster allows ClusterIP (guard.services)"},
	"a LoadBalancer":               {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, "spec.type is LoadBalancer"},
	"an ExternalName":              {`{apiVersion: v1, kind: Service, spec: {type: ExternalName, externalName: kubernetes.default.svc}}`, "spec.type is ExternalName"},
	"an Ingress":                   {`{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: bank.example.com}]}}`, "guard.ingress.hosts"},
	"a claim":                      {claim("1Gi", ""), "lends no storage (guard.storage.classes)"},
	"a token":                      {`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: default}}}`, "service-account-token is refused"},
	"a ConfigMap of 63 KiB":        {noteOf("x", 63<<10), ""},
	"a large ConfigMap":            {noteOf("x", 64<<10), "bytes with its metadata, this cluster allows 65536 (guard.limits.objectSize)"},
	"a ConfigMap of long letters":  {noteOf("💾", 17<<10), "(guard.limits.objectSize)"},
	"a large Secret":               {`{apiVersion: v1, kind: Secret, stringData: {a: ` + strings.Repeat("x", 40<<10) + `, b: ` + strings.Repeat("x", 10<<10) + `}}`, "(guard.limits.objectSize)"},
	"a ConfigMap with much to say": {`{apiVersion: v1, kind: ConfigMap, metadata: {annotations: {a: ` + strings.Repeat("x", 65<<10) + `}}}`, "(guard.limits.objectSize)"},
	"a Service with much to say":   {`{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}, metadata: {annotations: {a: ` + strings.Repeat("x", 33<<10) + `}}}`, "services judged has"},
	"many endpoints":               {shadowSlices(1000), "this cluster allows 32768 (guard.limits.manifestSize)"},
	"a hundred endpoints":          {shadowSlices(100), ""},
	"endpoints at the metadata":    {shadowSlice("10.0.0.7", "169.254.169.254"), "169.254.169.254 is not allowed: it is loopback, link-local"},
	"endpoints at the host":        {shadowSlice("127.0.0.1"), "127.0.0.1"},
	"endpoints at the IPv6 host":   {shadowSlice("::1"), "::1"},
	"endpoints on the link":        {shadowSlice("fe80::1"), "fe80::1"},
	"endpoints nowhere":            {shadowSlice("0.0.0.0"), "0.0.0.0"},
	"endpoints everywhere":         {shadowSlice("224.0.0.1"), "224.0.0.1"},
	"endpoints in disguise":        {shadowSlice("::ffff:169.254.169.254"), "::ffff:169.254.169.254"},
	"endpoints at AWS' metadata":   {shadowSlice("fd00:ec2::254"), "fd00:ec2::254"},
	"endpoints at Alibaba's":       {shadowSlice("100.100.100.200"), "100.100.100.200"},
	"endpoints at Azure's":         {shadowSlice("168.63.129.16"), "168.63.129.16"},
	"endpoints behind NAT64":       {shadowSlice("64:ff9b::a9fe:a9fe"), "64:ff9b::a9fe:a9fe"},
	"endpoints behind 6to4":        {shadowSlice("2002:a9fe:a9fe::1"), "2002:a9fe:a9fe::1"},
	"a Service with a public name": {`{apiVersion: v1, kind: Service, metadata: {annotations: {external-dns.alpha.kubernetes.io/hostname: bank.example.com}}, spec: {clusterIP: None, ports: [{port: 80}]}}`, "metadata.annotations has external-dns.alpha.kubernetes.io/hostname, remove it"},
	"a Service that is scraped":    {`{apiVersion: v1, kind: Service, metadata: {annotations: {prometheus.io/scrape: "true", meta.helm.sh/release-name: a, argocd.argoproj.io/tracking-id: a, liqo.io/skip-reflection: "false"}}, spec: {ports: [{port: 80}]}}`, ""},
	"endpoints by name":            {shadowSlice("metadata.google.internal"), "metadata.google.internal"},
	"an Event":                     {`{apiVersion: v1, kind: Event, involvedObject: {kind: Pod, name: a}}`, "a virtual kubelet does not write events"},
	"an object with a finalizer":   {`{apiVersion: v1, kind: ConfigMap, metadata: {finalizers: [example.com/stay]}}`, "metadata.finalizers"},
	"a Service with a finalizer":   {`{apiVersion: v1, kind: Service, metadata: {finalizers: [example.com/stay]}, spec: {ports: [{port: 80}]}}`, "metadata.finalizers"},
	"something others delete":      {`{apiVersion: v1, kind: Secret, metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: b}]}}`, "metadata.ownerReferences"},
	"something with 65 labels":     {`{apiVersion: v1, kind: ConfigMap, metadata: {labels: {` + labels(65) + `}}}`, "has 65 labels"},
	"something with 64 labels":     {`{apiVersion: v1, kind: ConfigMap, metadata: {labels: {` + labels(64) + `}}}`, ""},
	"a limit on how much it bears": {`{apiVersion: v1, kind: LimitRange, spec: {limits: []}}`, "cannot create resource"},
	"a quota":                      {`{apiVersion: v1, kind: ResourceQuota, spec: {hard: {pods: "1"}}}`, "cannot create resource"},
}

// allowedObjects are consumers' objects, as in objects, for values with which an operator allows more.
var allowedObjects = map[string]struct{ text, want string }{
	"a LoadBalancer":                           {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, ""},
	"a LoadBalancer with external IPs":         {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, externalIPs: [8.8.8.8], ports: [{port: 80}]}}`, "externalIPs"},
	"a NodePort":                               {`{apiVersion: v1, kind: Service, spec: {type: NodePort, ports: [{port: 80}]}}`, "allows ClusterIP, LoadBalancer"},
	"an Ingress for its host":                  {ingress("shop.example.com", "nginx", ""), ""},
	"an Ingress below its host":                {ingress("a.rome.example.com", "nginx", ""), ""},
	"an Ingress for all below its host":        {ingress("'*.rome.example.com'", "nginx", ""), ""},
	"an Ingress too far below":                 {ingress("a.b.rome.example.com", "nginx", ""), "it lends shop.example.com, *.rome.example.com, *.{consumer}.apps.example.com"},
	"an Ingress for another's host":            {ingress("bank.example.com", "nginx", ""), "must name a host"},
	"an Ingress that ends like its host":       {ingress("evilshop.example.com", "nginx", ""), "must name a host"},
	"an Ingress for everything":                {ingress("''", "nginx", ""), "must name a host"},
	"an Ingress with TLS for another":          {ingress("shop.example.com", "nginx", "tls: [{hosts: [bank.example.com]}]"), "must name a host"},
	"an Ingress with TLS for everything":       {ingress("shop.example.com", "nginx", "tls: [{secretName: a}]"), "must name a host"},
	"an Ingress with a default":                {ingress("shop.example.com", "nginx", "defaultBackend: {service: {name: a, port: {number: 80}}}"), "spec.defaultBackend must not be set"},
	"an Ingress of another class":              {ingress("shop.example.com", "internal", ""), "spec.ingressClassName must be one of nginx"},
	"an Ingress that commands":                 {strings.Replace(ingress("shop.example.com", "nginx", ""), "metadata: {", "metadata: {annotations: {nginx.ingress.kubernetes.io/configuration-snippet: a}, ", 1), "metadata.annotations has nginx.ingress.kubernetes.io/configuration-snippet"},
	"an Ingress that rewrites":                 {strings.Replace(ingress("shop.example.com", "nginx", ""), "metadata: {", "metadata: {annotations: {nginx.ingress.kubernetes.io/rewrite-target: /}, ", 1), ""},
	"an Ingress to another kind":               {strings.Replace(ingress("shop.example.com", "nginx", ""), "service: {name: web, port: {number: 80}}", "resource: {apiGroup: example.com, kind: Bucket, name: a}", 1), "a path of an Ingress must lead to a Service"},
	"a claim":                                  {claim("10Gi", "fast"), ""},
	"a claim that is too large":                {claim("1Pi", "fast"), "spec.resources.requests.storage is 1Pi, this cluster allows 10Gi"},
	"a claim of another class":                 {claim("1Gi", "gold"), "spec.storageClassName is gold, this cluster lends fast"},
	"a claim of no class":                      {claim("1Gi", ""), "spec.storageClassName is not set"},
	"a claim of a foreign volume":              {claim("1Gi", "fast", "volumeName: theirs"), "spec.volumeName, selector"},
	"a claim of any volume":                    {claim("1Gi", "fast", "selector: {matchLabels: {a: b}}"), "spec.volumeName, selector"},
	"a claim of an annotated class":            {annotated(claim("1Gi", "fast"), "volume.beta.kubernetes.io/storage-class"), "metadata.annotations has volume.beta.kubernetes.io/storage-class"},
	"a claim on a node":                        {annotated(claim("1Gi", "fast"), "volume.kubernetes.io/selected-node"), "volume.kubernetes.io/selected-node"},
	"a claim that says it is bound":            {annotated(claim("1Gi", "fast"), "pv.kubernetes.io/bind-completed"), "pv.kubernetes.io/bind-completed"},
	"a claim on a node, as once named":         {annotated(claim("1Gi", "fast"), "volume.alpha.kubernetes.io/selected-node"), "volume.alpha.kubernetes.io/selected-node"},
	"a claim of another provisioner":           {annotated(claim("1Gi", "fast"), "volume.beta.kubernetes.io/storage-provisioner"), "storage-provisioner"},
	"a claim with an option of Liqo":           {annotated(claim("1Gi", "fast"), "liqo.io/remote-storage-class"), ""},
	"a LoadBalancer with an address":           {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, loadBalancerIP: 192.0.2.1, ports: [{port: 80}]}}`, "spec.loadBalancerIP is 192.0.2.1"},
	"a LoadBalancer of a class":                {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, loadBalancerClass: example.com/internal, ports: [{port: 80}]}}`, "spec.loadBalancerClass is example.com/internal, this cluster lends example.com/public"},
	"a LoadBalancer of a lent class":           {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, loadBalancerClass: example.com/public, ports: [{port: 80}]}}`, ""},
	"a LoadBalancer with a lent option":        {`{apiVersion: v1, kind: Service, metadata: {annotations: {lb.example.com/size: small}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, ""},
	"an Ingress of Argo CD":                    {strings.Replace(ingress("shop.example.com", "nginx", ""), "metadata: {", "metadata: {annotations: {argocd.argoproj.io/tracking-id: a}, ", 1), ""},
	"an Ingress below the consumer's host":     {ingress("a.rome.apps.example.com", "nginx", ""), ""},
	"an Ingress below another consumer's host": {ingress("a.milan.apps.example.com", "nginx", ""), "must name a host"},
	"an Ingress for the consumer's host":       {ingress("web-rome.example.com", "nginx", ""), ""},
	"an Ingress for another consumer's host":   {ingress("web-milan.example.com", "nginx", ""), "must name a host"},
	"a LoadBalancer with a public name":        {`{apiVersion: v1, kind: Service, metadata: {annotations: {service.beta.kubernetes.io/a: b}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`, "metadata.annotations has service.beta.kubernetes.io/a"},
	"a claim of a copy":                        {claim("1Gi", "fast", "dataSource: {kind: PersistentVolumeClaim, name: theirs}"), "spec.volumeName, selector"},
	"endpoints among nodes":                    {shadowSlice("192.168.1.5"), "guard.endpoints.deniedCIDRs"},
	"endpoints elsewhere":                      {shadowSlice("192.168.2.5"), ""},
	"an ExternalName, which is not listed":     {`{apiVersion: v1, kind: Service, spec: {type: ExternalName, externalName: a.example.com}}`, "spec.type is ExternalName"},
}

func noteOf(letter string, n int) string {
	return `{apiVersion: v1, kind: ConfigMap, data: {a: ` + strings.Repeat(letter, n) + `}}`
}

// shadowSlices returns an object with n endpoints, as Liqo reflects them for pods that are ready.
func shadowSlices(n int) string {
	var endpoints []string
	for i := range n {
		endpoints = append(endpoints, fmt.Sprintf(`{addresses: ["10.%d.%d.7"], conditions: {ready: true, serving: true, terminating: false}, nodeName: a-node-of-a-usual-length, zone: europe-west1-b}`, i/250, i%250))
	}
	return `{apiVersion: offloading.liqo.io/v1beta1, kind: ShadowEndpointSlice, spec: {template: {addressType: IPv4, ports: [{port: 80}], endpoints: [` + strings.Join(endpoints, ", ") + `]}}}`
}

func shadowSlice(addresses ...string) string {
	return `{apiVersion: offloading.liqo.io/v1beta1, kind: ShadowEndpointSlice, spec: {template: {addressType: IPv4, ports: [{port: 80}],
		endpoints: [{addresses: ["` + strings.Join(addresses, `", "`) + `"]}]}}}`
}

func claim(size, class string, more ...string) string {
	if class != "" {
		more = append(more, "storageClassName: "+class)
	}
	return `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {` + strings.Join(append(more, "accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}"), ", ") + `}}`
}

// annotated adds an annotation to the YAML of an object that has no metadata yet.
func annotated(text, key string) string {
	return strings.Replace(text, "spec: {", "metadata: {annotations: {"+key+": gold}}, spec: {", 1)
}

func ingress(host, class, more string) string {
	if more != "" {
		more = ", " + more
	}
	return `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {labels: {}}, spec: {ingressClassName: ` + class +
		`, rules: [{host: ` + host + `, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]` + more + `}}`
}

func labels(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("l%d: a", i))
	}
	return strings.Join(all, ", ")
}

func (s *site) judge(cases map[string]struct{ text, want string }) {
	s.Helper()
	for name, test := range cases {
		obj := &unstructured.Unstructured{}
		s.check(yaml.Unmarshal([]byte(test.text), &obj.Object))
		obj.SetNamespace(s.namespace)
		obj.SetName("judged")
		if obj.GetKind() == "Event" {
			s.check(unstructured.SetNestedField(obj.Object, s.namespace, "involvedObject", "namespace"))
		}
		err := s.peer.Create(s.Context(), obj, client.DryRunAll)
		switch {
		case test.want == "" && err != nil:
			s.Errorf("%s is refused: %.600s", name, fmt.Sprint(err))
		case test.want != "":
			s.wantRefused(name, test.want, err)
		}
	}
}

func (c *cluster) testObjectsStayInTheirNamespace() {
	c.Helper()
	s := c.openSite("objects", "")
	s.judge(objects)
	s.testKeysOfLiqo()
	s.testChanges()
	s.testConnections()
	s.testResidents()
	s.testQuotasAreOutOfReach()
	allowed := c.openSite("allowed-objects", `{guard: {services: [ClusterIP, LoadBalancer], loadBalancerClasses: [example.com/public], serviceAnnotations: [lb.example.com/size], storage: {classes: [fast]},
		ingress: {hosts: [shop.example.com, "*.rome.example.com", "*.{consumer}.apps.example.com", "web-{consumer}.example.com"], classes: [nginx], annotations: [nginx.ingress.kubernetes.io/rewrite-target]},
		endpoints: {deniedCIDRs: [192.168.1.0/24, "fd00::/8"]}}}`)
	allowed.judge(allowedObjects)
	c.openSite("external", `{guard: {services: [ClusterIP, ExternalName], ingress: {hosts: [shop.example.com]}, storage: {classes: [""]}}}`, "-objects").judge(map[string]struct{ text, want string }{
		"a claim of no class":                   {claim("1Gi", ""), ""},
		"a claim of no class but an annotation": {annotated(claim("1Gi", ""), "volume.beta.kubernetes.io/storage-class"), "metadata.annotations has volume.beta.kubernetes.io/storage-class"},
		"an ExternalName where hosts are lent":  {`{apiVersion: v1, kind: Service, spec: {type: ExternalName, externalName: a.example.com}}`, "refused where hosts are lent (guard.ingress.hosts)"},
	})
}

// testChanges changes an existing Service and an existing claim.
func (s *site) testChanges() {
	s.Helper()
	ctx := s.Context()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "changed"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	s.check(s.peer.Create(ctx, service))
	patch := func(obj client.Object, text string) error {
		return s.peer.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	s.check(patch(service, `{"spec":{"selector":{"app":"web"}}}`))
	s.wantRefused("external IPs later", "spec.externalIPs", patch(service, `{"spec":{"externalIPs":["192.0.2.1"]}}`))
	s.wantRefused("a port of every node later", "spec.type is NodePort", patch(service, `{"spec":{"type":"NodePort"}}`))
	// A controller of this cluster adds a finalizer. The consumer can still update the object, but cannot remove the
	// finalizer.
	s.check(s.Patch(ctx, service.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}`))))
	s.check(patch(service, `{"metadata":{"annotations":{"a":"b"}}}`))
	s.wantRefused("the finalizer of a controller", "metadata.finalizers", patch(service, `{"metadata":{"finalizers":null}}`))
	s.check(s.peer.Delete(ctx, service))
}

// testConnections connects to a pod as the consumer, like kubectl exec.
func (s *site) testConnections() {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "connected"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a"}}, AutomountServiceAccountToken: new(bool)}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "default"}}
	s.check(client.IgnoreAlreadyExists(s.Create(s.Context(), account)))
	s.create(pod)
	connect := func(user, subresource string) error {
		config := rest.CopyConfig(s.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{consumer, "system:authenticated"}}
		set, err := kubernetes.NewForConfig(config)
		s.check(err)
		return set.CoreV1().RESTClient().Post().Namespace(s.namespace).Resource("pods").Name(pod.Name).SubResource(subresource).
			Param("command", "true").Param("container", "main").Do(s.Context()).Error()
	}
	for _, subresource := range []string{"exec", "attach", "portforward"} {
		// There is no kubelet to connect to, but admission has passed the request.
		if err := connect(user, subresource); err == nil || apierrors.IsForbidden(err) {
			s.Errorf("%s of an identity that may write: %v", subresource, err)
		}
		s.wantRefused(subresource+" of an identity without a reservation", "has no live reservation", connect("res-ended00000-1-0123456789ab", subresource))
	}
}

// roleBindingOfResidents gives all rights in an offloaded namespace to its own service account and to one of this cluster.
func roleBindingOfResidents(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "generous"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"},
			{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "default"},
		},
	}
}

// testResidents writes with the token of a service account in the offloaded namespace.
func (s *site) testResidents() {
	s.Helper()
	s.create(roleBindingOfResidents(s.namespace))
	note := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "note"}}
	}
	resident := s.as("system:serviceaccount:" + s.namespace + ":default")
	s.wantRefused("a resident's ConfigMap", "is a service account of an offloaded namespace and may write nothing", resident.Create(s.Context(), note(), client.DryRunAll))
	s.wantRefused("a resident's ShadowPod", "service account of an offloaded namespace", resident.Create(s.Context(), s.shadowPod("resident"), client.DryRunAll))
	controller := s.as("system:serviceaccount:kube-system:default")
	s.check(controller.Create(s.Context(), note(), client.DryRunAll))
}

// testQuotasAreOutOfReach tries to change, as the consumer, the quota that bounds it.
func (s *site) testQuotasAreOutOfReach() {
	s.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "liqo-resource-broker-objects"}}
	s.create(quota)
	for name, write := range map[string]func(context.Context) error{
		"deleting": func(ctx context.Context) error { return s.peer.Delete(ctx, quota.DeepCopy()) },
		"raising": func(ctx context.Context) error {
			return s.peer.Patch(ctx, quota.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"count/secrets":"100000"}}}`)))
		},
		"making up": func(ctx context.Context) error {
			return s.peer.Patch(ctx, quota.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"used":{"count/secrets":"0"}}}`)))
		},
		"deleting all": func(ctx context.Context) error {
			return s.peer.DeleteAllOf(ctx, &corev1.ResourceQuota{}, client.InNamespace(s.namespace))
		},
	} {
		s.wantRefused(name+" the quota", "resourcequotas", write(s.Context()))
	}
	// The policy refuses writes to quotas even if a role allows them.
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "too-much"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumer}},
	})
	raise := func() error {
		return s.peer.Patch(s.Context(), quota.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"100"}}}`)))
	}
	var refusal error
	s.check(wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, hangLimit, true, func(context.Context) (bool, error) {
		refusal = raise()
		return refusal == nil || !strings.Contains(refusal.Error(), "cannot patch resource"), nil // the role is in effect
	}))
	s.wantRefused("raising a quota with a role that allows it", "a virtual kubelet does not write resourcequotas", refusal)
}
