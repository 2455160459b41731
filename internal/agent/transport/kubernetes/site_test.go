package kubernetes_test

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/clustermailbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/kubernetes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// cluster is the broker's cluster: one API server, in which each test has its own namespaces.
type cluster struct {
	*controlplane.ControlPlane
	admin  client.Client
	scheme *runtime.Scheme
	sites  atomic.Int32
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{ControlPlane: controlplanetest.Start(t), scheme: runtime.NewScheme()}
	runtest.Check(t, errors.Join(clientgoscheme.AddToScheme(c.scheme), brokerv1alpha1.AddToScheme(c.scheme)))
	kinds, err := manifest.ReadFS(charts.Broker(), "files/crds")
	runtest.Check(t, err)
	c.admin, err = client.New(c.RESTConfig(), client.Options{Scheme: c.scheme})
	runtest.Check(t, err)
	runtest.Check(t, manifest.Install(t.Context(), c.admin, kinds))
	return c
}

// site is a broker with the rights from its chart, and clusters with theirs.
type site struct {
	*cluster
	namespace string
	broker    *transporttest.Broker
	gate      *access.Gate
	serving   atomic.Bool
	clock     clock.PassiveClock
}

// clusterIDs are the clusters of every site.
var clusterIDs = []string{"rome", "paris", "berlin"}

func (c *cluster) newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		cluster: c, namespace: fmt.Sprintf("site-%d", c.sites.Add(1)), broker: transporttest.NewBroker(),
		gate: access.NewGate(), clock: clock.RealClock{},
	}
	s.gate.Set(access.Policy{})
	s.serving.Store(true)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	runtest.Check(t, c.admin.Create(t.Context(), namespace))
	runtest.Check(t, manifest.Install(t.Context(), c.admin, s.rendered(t)))
	return s
}

// rendered returns the objects of the chart, without those that need pods, certificates or
// additional kinds.
func (s *site) rendered(t *testing.T) []manifest.Object {
	t.Helper()
	loaded, err := chart.LoadFS(charts.Broker())
	runtest.Check(t, err)
	var clusters []any
	for _, id := range clusterIDs {
		clusters = append(clusters, map[string]any{"clusterID": id, "namespace": s.mailboxes(id)})
	}
	// Helm modifies its input, so each use gets a new map.
	off := func() map[string]any { return map[string]any{"enabled": false} }
	rendered, err := chart.Render(loaded, chart.Release{Name: s.namespace, Namespace: s.namespace, Values: map[string]any{
		"fullnameOverride": s.namespace, "mailboxes": map[string]any{"clusters": clusters},
		"certificates": map[string]any{"certManager": off(), "existing": map[string]any{"tls": "none", "agentsCA": "none"}},
		"enrolment":    off(), "webhook": off(), "metrics": off(), "crds": off(),
	}})
	runtest.Check(t, err)
	var objects []manifest.Object
	for _, o := range rendered.Objects {
		if o.GetKind() != "Deployment" {
			objects = append(objects, o)
		}
	}
	return objects
}

// mailboxes returns the namespace of a cluster's mailboxes.
func (s *site) mailboxes(clusterID string) string { return s.namespace + "-" + clusterID }

// account returns the connection of a ServiceAccount.
func (s *site) account(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	file, err := s.ServiceAccountKubeconfig(t.Context(), namespace, name)
	runtest.Check(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	runtest.Check(t, err)
	config.QPS = -1
	return config
}

// serve answers mailboxes until the test ends or stop is called.
func (s *site) serve(t *testing.T) (stop func()) {
	t.Helper()
	now := time.Now()
	agents := pkitest.New(t, "agents", now)
	dir := t.TempDir()
	pair, err := agents.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, pair, agents.CertPEM(), agents.CertPEM())))
	api, err := server.New(server.Options{
		CertDir: dir, Broker: s.broker, Access: s.gate, Log: testr.New(t), Rate: 10000, Burst: 10000,
	})
	runtest.Check(t, err)
	namespaces, clusters := map[string]cache.Config{}, map[string]string{}
	for _, id := range clusterIDs {
		namespaces[s.mailboxes(id)], clusters[s.mailboxes(id)] = cache.Config{}, id
	}
	mgr, err := ctrl.NewManager(s.account(t, s.namespace, s.namespace), ctrl.Options{
		Scheme: s.scheme, Logger: testr.New(t),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&brokerv1alpha1.ClusterMailbox{}: {Namespaces: namespaces}}},
	})
	runtest.Check(t, err)
	err = clustermailbox.Setup(mgr, clustermailbox.Options{Clusters: clusters, Exchange: api, Serving: s.serving.Load, Clock: s.clock})
	runtest.Check(t, err)
	return runtest.Start(t, mgr)
}

// connect returns the transport of a cluster's agent.
func (s *site) connect(t *testing.T, clusterID string) *http.Transport {
	t.Helper()
	tr, err := kubernetes.New(kubernetes.Options{
		Config: s.account(t, s.mailboxes(clusterID), "agent"), Namespace: s.mailboxes(clusterID),
	})
	runtest.Check(t, err)
	t.Cleanup(func() { _ = tr.Close() }) // Close never fails
	return tr
}

// left returns the remaining mailboxes of a cluster.
func (s *site) left(t *testing.T, clusterID string) []brokerv1alpha1.ClusterMailbox {
	t.Helper()
	var list brokerv1alpha1.ClusterMailboxList
	runtest.Check(t, s.admin.List(t.Context(), &list, client.InNamespace(s.mailboxes(clusterID))))
	return list.Items
}

// hours returns a clock that is n hours ahead.
func hours(n int) clock.PassiveClock {
	return clocktesting.NewFakePassiveClock(time.Now().Add(time.Duration(n) * time.Hour))
}

// as returns a client with the rights of a cluster's agent.
func (s *site) as(t *testing.T, clusterID string) client.Client {
	t.Helper()
	c, err := client.New(s.account(t, s.mailboxes(clusterID), "agent"), client.Options{Scheme: s.scheme})
	runtest.Check(t, err)
	return c
}

func (s *site) mailbox(clusterID string, spec brokerv1alpha1.ClusterMailboxSpec) *brokerv1alpha1.ClusterMailbox {
	box := &brokerv1alpha1.ClusterMailbox{Spec: spec}
	box.Namespace, box.GenerateName = s.mailboxes(clusterID), "test-"
	return box
}

func roleBinding() client.Object { return &rbacv1.RoleBinding{} }
