package liqo_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
)

const (
	agreed   = "https://paris.example:6443"
	tenantNS = "liqo-tenant-paris"
	byHandNS = "liqo-tenant-berlin"
)

var (
	ofTheAgent = map[string]string{"app.kubernetes.io/managed-by": "liqo-resource-broker"}
	ofASlice   = map[string]string{"liqo.io/resourceslice-name": nodeName}
)

func identity(ns, name string, labels map[string]string, params authv1beta1.AuthParams) *authv1beta1.Identity {
	kind := authv1beta1.ControlPlaneIdentityType
	if labels["liqo.io/resourceslice-name"] != "" {
		kind = authv1beta1.ResourceSliceIdentityType
	}
	params.SignedCRT = append(params.SignedCRT, "crt"...)
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels},
		Spec:       authv1beta1.IdentitySpec{ClusterID: "paris", Type: kind, AuthParams: params},
	}
}

func virtualNode(name string, labels map[string]string) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantNS, Name: name},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: liqov1beta1.ClusterID("paris"), Labels: labels},
	}
}

// redirectsNothing checks that this cluster's Liqo connects only to the API server that was agreed on, whatever a
// provider writes into a status. The test writes what Liqo would.
func (m *member) redirectsNothing(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		tenantNS: {"broker.fluidos.eu/api-server": agreed + " https://same.paris.example"}, byHandNS: nil,
	} {
		m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: annotations, Labels: map[string]string{"app.kubernetes.io/managed-by": "liqo-resource-broker", "liqo.io/tenant-namespace": "true"},
		}})
	}
	at := func(server string) authv1beta1.AuthParams { return authv1beta1.AuthParams{APIServer: server} }
	proxied := func(proxy string) authv1beta1.AuthParams {
		return authv1beta1.AuthParams{APIServer: agreed, ProxyURL: &proxy}
	}
	node := func(labels map[string]string) *offloadingv1beta1.VirtualNode { return virtualNode(nodeName, labels) }
	good := map[string]string{
		"broker.fluidos.eu/reservation": reservation, "liqo.io/remote-cluster-id": "paris",
		"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1",
	}
	with := func(key, value string) map[string]string {
		labels := map[string]string{key: value}
		for k, v := range good {
			if k != key {
				labels[k] = v
			}
		}
		return labels
	}
	create := func(obj client.Object) error { return m.Create(t.Context(), obj, client.DryRunAll) }
	for name, tt := range map[string]struct {
		obj     client.Object
		allowed bool
	}{
		"the agreed API server":                     {identity(tenantNS, "a", ofTheAgent, at(agreed)), true},
		"the same with a slash at its end":          {identity(tenantNS, "a", ofTheAgent, at(agreed+"/")), true},
		"the same in other words":                   {identity(tenantNS, "a", ofTheAgent, at("https://same.paris.example")), true},
		"another API server":                        {identity(tenantNS, "a", ofTheAgent, at("https://169.254.169.254")), false},
		"one that contains the agreed one":          {identity(tenantNS, "a", ofTheAgent, at(agreed+".evil.example")), false},
		"two":                                       {identity(tenantNS, "a", ofTheAgent, at(agreed+" https://same.paris.example")), false},
		"none":                                      {identity(tenantNS, "a", ofTheAgent, at("")), false},
		"a slice with the agreed API server":        {identity(tenantNS, "a", ofASlice, at(agreed)), true},
		"a slice with another API server":           {identity(tenantNS, "a", ofASlice, at("https://169.254.169.254")), false},
		"a slice with a proxy":                      {identity(tenantNS, "a", ofASlice, proxied("http://127.0.0.1:39081")), false},
		"a proxy":                                   {identity(tenantNS, "a", ofTheAgent, proxied("http://127.0.0.1:39081")), false},
		"an empty proxy, which is none":             {identity(tenantNS, "a", ofTheAgent, proxied("")), true},
		"credentials of AWS":                        {identity(tenantNS, "a", ofTheAgent, authv1beta1.AuthParams{APIServer: agreed, AwsConfig: &authv1beta1.AwsConfig{}}), false},
		"a CA of 65 KiB":                            {identity(tenantNS, "a", ofTheAgent, authv1beta1.AuthParams{APIServer: agreed, CA: make([]byte, 65<<10)}), false},
		"one that somebody made by hand":            {identity(tenantNS, "a", nil, at("https://169.254.169.254")), true},
		"a slice that somebody made by hand":        {identity(tenantNS, "a", map[string]string{"liqo.io/resourceslice-name": "mine"}, at("https://127.0.0.1")), true},
		"in a namespace without a record":           {identity(byHandNS, "a", ofTheAgent, at("https://127.0.0.1")), true},
		"a node of a reservation":                   {node(good), true},
		"a node without the reservation":            {node(map[string]string{"liqo.io/remote-cluster-id": "paris"}), false},
		"a node without labels":                     {node(nil), false},
		"a node of another reservation":             {node(with("broker.fluidos.eu/reservation", "res-bbbbbbbbbb")), false},
		"a node of a reservation by an expression":  {node(with("broker.fluidos.eu/reservation", "res-a.*")), false},
		"a node that wants the pods of a namespace": {node(with("namespace.broker.fluidos.eu/kube-system", "true")), false},
		"a node of another provider":                {node(with("liqo.io/remote-cluster-id", "oslo")), false},
		"a node of somebody's request":              {node(with("broker.fluidos.eu/request", "my-request")), false},
		"a node for everybody":                      {node(with("broker.fluidos.eu/shared", "true")), false},
		"a node with the hostname of another":       {node(with("kubernetes.io/hostname", "worker")), false},
		"a node that looks like a control plane":    {node(with("node-role.kubernetes.io/control-plane", "")), false},
		"a node with a GPU that was not asked for":  {node(with("nvidia.com/gpu.product", "H100")), false},
		"a node that somebody made by hand":         {virtualNode("mine", map[string]string{"a": "b"}), true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := create(tt.obj); tt.allowed && err != nil || !tt.allowed && !isRefused(err) {
				t.Errorf("allowed: want %v, got %v", tt.allowed, err)
			}
		})
	}
	t.Run("later", func(t *testing.T) { m.changesOfIdentities(t) })
	t.Run("namespaces", func(t *testing.T) { m.changesOfMaps(t) })
	t.Run("the agent's own changes of namespaces", func(t *testing.T) { m.changesOfNamespaces(t) })
}

// changesOfIdentities tries the changes that Liqo's renewal makes from the provider's status.
func (m *member) changesOfIdentities(t *testing.T) {
	id := identity(tenantNS, "controlplane-paris", ofTheAgent, authv1beta1.AuthParams{APIServer: agreed})
	m.create(id)
	for name, tt := range map[string]struct {
		change  func(*authv1beta1.Identity)
		allowed bool
	}{
		"a renewed certificate":        {func(i *authv1beta1.Identity) { i.Spec.AuthParams.SignedCRT = []byte("renewed") }, true},
		"another API server":           {func(i *authv1beta1.Identity) { i.Spec.AuthParams.APIServer = "https://169.254.169.254" }, false},
		"a proxy":                      {func(i *authv1beta1.Identity) { i.Spec.AuthParams.ProxyURL = new("http://127.0.0.1:1") }, false},
		"another server, and no label": {func(i *authv1beta1.Identity) { i.Spec.AuthParams.APIServer = "https://evil.example"; i.Labels = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			update := id.DeepCopy()
			tt.change(update)
			if err := m.Update(t.Context(), update, client.DryRunAll); tt.allowed && err != nil || !tt.allowed && !isRefused(err) {
				t.Errorf("allowed: want %v, got %v", tt.allowed, err)
			}
		})
	}
	var ns corev1.Namespace
	m.check(m.Get(t.Context(), client.ObjectKey{Name: tenantNS}, &ns))
	ns.Annotations["broker.fluidos.eu/api-server"] = "https://new.paris.example"
	m.check(m.Update(t.Context(), &ns))
	// The API server learns of the new address a moment later.
	m.check(wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return isRefused(m.Create(ctx, identity(tenantNS, "a", ofTheAgent, authv1beta1.AuthParams{APIServer: agreed}), client.DryRunAll)), nil
	}))
	id.Spec.AuthParams.SignedCRT = []byte("renewed before the provider moved")
	if err := m.Update(t.Context(), id); err != nil {
		t.Errorf("an address that was accepted before: %v", err)
	}
}

// changesOfMaps tries what Liqo copies from the provider's status of a NamespaceMap. Virtual kubelets reflect the
// namespaces that are Accepted.
func (m *member) changesOfMaps(t *testing.T) {
	own := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantNS, Name: "paris"},
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"demo": "demo-rome"}},
	}
	m.create(own)
	const accepted, terminating = offloadingv1beta1.MappingAccepted, offloadingv1beta1.MappingTerminating
	for name, tt := range map[string]struct {
		namespace, remote string
		phase             offloadingv1beta1.MappingPhase
		allowed           bool
	}{
		"one that is offloaded":              {"demo", "demo-rome", accepted, true},
		"one that was offloaded":             {"former", "former-rome", terminating, true},
		"one that is not offloaded":          {"kube-system", "kube-system-rome", accepted, false},
		"one that has no name there":         {"kube-system", "", accepted, false},
		"one that goes to another namespace": {"demo", "stolen", accepted, false},
	} {
		t.Run(name, func(t *testing.T) {
			update := own.DeepCopy()
			update.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{tt.namespace: {RemoteNamespace: tt.remote, Phase: tt.phase}}
			if err := m.Status().Update(t.Context(), update, client.DryRunAll); tt.allowed && err != nil || !tt.allowed && !isRefused(err) {
				t.Errorf("allowed: want %v, got %v", tt.allowed, err)
			}
		})
	}
}

// changesOfNamespaces tries allowed and forbidden changes with the agent's account.
func (m *member) changesOfNamespaces(t *testing.T) {
	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "somebodys"}})
	for name, tt := range map[string]struct {
		namespace string
		change    func(*corev1.Namespace)
		allowed   bool
	}{
		"the record":          {tenantNS, func(n *corev1.Namespace) { n.Annotations["broker.fluidos.eu/api-server"] = agreed }, true},
		"another annotation":  {tenantNS, func(n *corev1.Namespace) { n.Annotations["a"] = "b" }, false},
		"a label":             {tenantNS, func(n *corev1.Namespace) { n.Labels["pod-security.kubernetes.io/enforce"] = "privileged" }, false},
		"somebody's":          {"somebodys", func(n *corev1.Namespace) { n.Annotations = map[string]string{"broker.fluidos.eu/api-server": agreed} }, false},
		"the label of others": {"somebodys", func(n *corev1.Namespace) { n.Labels = map[string]string{"liqo.io/tenant-namespace": "true"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var ns corev1.Namespace
			m.check(m.Get(t.Context(), client.ObjectKey{Name: tt.namespace}, &ns))
			before := ns.DeepCopy()
			tt.change(&ns)
			err := m.agent.Patch(t.Context(), &ns, client.MergeFrom(before), client.DryRunAll)
			if tt.allowed && err != nil || !tt.allowed && !isRefused(err) {
				t.Errorf("allowed: want %v, got %v", tt.allowed, err)
			}
		})
	}
}
