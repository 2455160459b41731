package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// hangLimit ends a wait for something that must happen, so that a broken broker fails its test. It is far longer than
// the slowest machine needs.
const hangLimit = 5 * time.Minute

// bench runs a broker without agents on a real API server, and acts as an administrator.
type bench struct {
	client.Client
	t      *testing.T
	plane  *controlplane.ControlPlane
	config *rest.Config
	broker *process.Process
}

func newBench(t *testing.T) *bench {
	t.Helper()
	objects, err := chart.BrokerForProcess("liqo-resource-broker", "liqo-resource-broker")
	if err != nil {
		t.Fatal(err)
	}
	b := installBench(t, objects)
	b.start()
	return b
}

// installBench returns a bench with the objects of a chart, whose broker does not run yet.
func installBench(t *testing.T, objects []manifest.Object) *bench {
	t.Helper()
	plane := controlplanetest.Start(t)
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-resource-broker"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Install(t.Context(), c, objects); err != nil {
		t.Fatal(err)
	}
	return &bench{Client: c, t: t, plane: plane, config: plane.RESTConfig()}
}

// start runs the broker with only the shipped rights.
func (b *bench) start(more ...string) {
	b.t.Helper()
	kubeconfig, err := b.plane.ServiceAccountKubeconfig(b.t.Context(), "liqo-resource-broker", "liqo-resource-broker")
	if err != nil {
		b.t.Fatal(err)
	}
	b.broker, err = b.plane.Processes().Start(process.Spec{
		Name: "broker", Path: brokerBinary(b.t), Layer: process.Controller,
		Args: append(more, "--kubeconfig="+kubeconfig, "--namespace=liqo-resource-broker", "--health-probe-bind-address=0", "--metrics-bind-address=0"),
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) apply(text string) client.Object {
	b.t.Helper()
	objects, err := manifest.Read([]byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, obj := range objects {
		obj.SetNamespace("default")
		if err := b.Create(b.t.Context(), obj, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: "Strict"}}); err != nil {
			b.t.Fatal(err)
		}
	}
	return objects[0]
}

// await polls an object until check returns "".
func await[T client.Object](b *bench, name string, obj T, check func(T) string) T {
	b.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		err := b.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, obj)
		waiting := fmt.Sprint(err)
		if err == nil {
			if waiting = check(obj); waiting == "" {
				return obj
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%T %q: still waiting for %s", obj, name, waiting)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *bench) awaitPhase(name string, want brokerv1alpha1.ReservationPhase) *brokerv1alpha1.Reservation {
	b.t.Helper()
	return await(b, name, &brokerv1alpha1.Reservation{}, func(r *brokerv1alpha1.Reservation) string {
		if r.Status.Phase == want {
			return ""
		}
		return fmt.Sprintf("phase %s, it is %s: %s", want, r.Status.Phase, r.Status.Message)
	})
}

func (b *bench) awaitAvailable(name, cpu, memory string) *brokerv1alpha1.ClusterAdvertisement {
	b.t.Helper()
	return await(b, name, &brokerv1alpha1.ClusterAdvertisement{}, func(a *brokerv1alpha1.ClusterAdvertisement) string {
		free := a.Spec.Resources.Available
		if free.Cpu().String() == cpu && (memory == "" || free.Memory().String() == memory) && a.Status.ObservedGeneration == a.Generation {
			return ""
		}
		return fmt.Sprintf("%s and %s available, there are %s and %s", cpu, memory, free.Cpu(), free.Memory())
	})
}

// awaitEvent polls until there is an event with this reason and note.
func (b *bench) awaitEvent(reason, note string) {
	b.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		var seen []string
		list := &corev1.EventList{}
		if err := b.List(b.t.Context(), list); err != nil {
			b.t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, note) {
				return
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("still waiting for an event %s: %s, there are\n%s", reason, note, strings.Join(seen, "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const localCluster = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: local-cluster-adv}
spec:
  clusterID: "fd32c7d2-7cc6-46e6-80aa-d3d5c835586c"
  clusterName: "local-cluster"
  resources:
    capacity: {cpu: "10", memory: "8025424Ki"}
    allocated: {cpu: "1050m", memory: "418Mi"}
    reserved: {cpu: "3000m", memory: "4Gi"}
    available: {cpu: "5950m", memory: "3597392Ki"}
`

func reservationText(name, cpu, memory, more string) string {
	return fmt.Sprintf(`
apiVersion: broker.fluidos.eu/v1alpha1
kind: Reservation
metadata: {name: %s}
spec:
  requestedResources: {cpu: %q, memory: %q}
  requesterID: user-team
%s`, name, cpu, memory, more)
}

func TestBrokerWithoutAgents(t *testing.T) {
	b := newBench(t)

	b.apply(localCluster)
	adv := b.awaitAvailable("local-cluster-adv", "8950m", "7597392Ki")
	if got := adv.Spec.Resources; !got.Reserved.Cpu().IsZero() || got.Allocatable.Cpu().String() != "10" {
		t.Errorf("reserved %v and allocatable %v, want nothing and the capacity", got.Reserved, got.Allocatable)
	}
	if adv.Spec.Timestamp == nil || !adv.Status.Active || adv.Status.Score != "92.08" {
		t.Errorf("timestamp %v, active %v, score %s", adv.Spec.Timestamp, adv.Status.Active, adv.Status.Score)
	}

	t.Run("exact amounts are reserved and a request that does not fit fails", func(t *testing.T) {
		b.apply(reservationText("first", "3", "1Gi", "  duration: 1h\n  priority: 10"))
		r := b.awaitPhase("first", brokerv1alpha1.ReservationReserved)
		if r.Status.TargetClusterID != "fd32c7d2-7cc6-46e6-80aa-d3d5c835586c" || r.Status.ExpiresAt.Sub(r.Status.ReservedAt.Time) != time.Hour {
			t.Errorf("status %+v", r.Status)
		}
		for condition, want := range map[string]metav1.ConditionStatus{
			brokerv1alpha1.ConditionAcknowledged: metav1.ConditionUnknown,
			brokerv1alpha1.ConditionNoConsumer:   metav1.ConditionTrue,
			brokerv1alpha1.ConditionReserved:     metav1.ConditionTrue,
		} {
			if c := meta.FindStatusCondition(r.Status.Conditions, condition); c == nil || c.Status != want {
				t.Errorf("condition %s is %v, want %s", condition, c, want)
			}
		}
		b.awaitAvailable("local-cluster-adv", "5950m", "")
		b.apply(reservationText("second", "5", "1Gi", ""))
		b.awaitPhase("second", brokerv1alpha1.ReservationReserved)
		b.awaitAvailable("local-cluster-adv", "950m", "")
		b.apply(reservationText("third", "2", "1Gi", ""))
		r = b.awaitPhase("third", brokerv1alpha1.ReservationFailed)
		if !strings.Contains(r.Status.Message, "cpu") || r.Status.Rejected["InsufficientResource"] != 1 {
			t.Errorf("refused with %q, %v", r.Status.Message, r.Status.Rejected)
		}
		b.apply(reservationText("exact", "950m", "1Gi", ""))
		b.awaitPhase("exact", brokerv1alpha1.ReservationReserved)
		b.awaitAvailable("local-cluster-adv", "0", "")
	})

	t.Run("a restart keeps reservations", func(t *testing.T) {
		b.broker.Kill()
		if err := b.broker.Start(); err != nil {
			t.Fatal(err)
		}
		b.apply(reservationText("too-late", "1m", "1Mi", ""))
		b.awaitPhase("too-late", brokerv1alpha1.ReservationFailed)
	})

	t.Run("deletion releases the capacity", func(t *testing.T) {
		for _, name := range []string{"first", "second", "third", "exact", "too-late"} {
			r := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			if err := b.Delete(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			awaitGone(b, r)
		}
		b.awaitAvailable("local-cluster-adv", "8950m", "7597392Ki")
	})

	t.Run("overwritten amounts are corrected", func(t *testing.T) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resources":{"available":{"cpu":"999"}}}}`))
		if err := b.Patch(t.Context(), adv, patch, client.FieldOwner("intruder")); err != nil {
			t.Fatal(err)
		}
		b.awaitAvailable("local-cluster-adv", "8950m", "")
		b.awaitEvent(brokerv1alpha1.ReasonFiguresIgnored, "the figures written by intruder were replaced (available cpu 999 instead of 8950m)")
	})

	t.Run("a status has room for long reasons", func(t *testing.T) {
		for i := range 6 {
			b.apply(fmt.Sprintf(`
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: far-%[1]d}
spec: {clusterID: far-%[1]d, topology: {region: region-%[1]d}, resources: {capacity: {cpu: "4", memory: 8Gi}}}
`, i))
			b.awaitAvailable(fmt.Sprintf("far-%d", i), "4", "")
		}
		var regions []string
		for i := range 15 {
			regions = append(regions, fmt.Sprintf("%s-%d", strings.Repeat("x", 60), 10+i))
		}
		elsewhere := strings.Join(regions, ", ")
		b.apply(reservationText("elsewhere", "1", "1Gi", "  constraints: {regions: ["+elsewhere+"]}"))
		if r := b.awaitPhase("elsewhere", brokerv1alpha1.ReservationFailed); r.Status.Rejected["WrongLocation"] != 7 {
			t.Errorf("refused with %q, %v", r.Status.Message, r.Status.Rejected)
		}
		b.apply(reservationText("there", "1", "1Gi", "  constraints: {regions: ["+elsewhere+", region-3]}"))
		if r := b.awaitPhase("there", brokerv1alpha1.ReservationReserved); r.Status.TargetClusterID != "far-3" || len(r.Status.Candidates) != 7 {
			t.Errorf("reserved from %q of %v", r.Status.TargetClusterID, r.Status.Candidates)
		}
		for i := range 6 {
			far := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("far-%d", i)}}
			if err := b.Delete(t.Context(), far); err != nil {
				t.Fatal(err)
			}
			awaitGone(b, far)
		}
	})

	t.Run("an advertisement in Git can be applied again", func(t *testing.T) {
		inGit := []byte(`{"apiVersion": "broker.fluidos.eu/v1alpha1", "kind": "ClusterAdvertisement", "metadata": {"name": "in-git", "namespace": "default"},
			"spec": {"clusterID": "in-git", "resources": {"capacity": {"cpu": "16000m", "memory": "32768Mi"}, "allocated": {"cpu": "1000m"}}}}`)
		obj := &unstructured.Unstructured{}
		sync := func() {
			obj.Object = nil
			obj.SetAPIVersion("broker.fluidos.eu/v1alpha1")
			obj.SetKind("ClusterAdvertisement")
			obj.SetNamespace("default")
			obj.SetName("in-git")
			if err := b.Patch(t.Context(), obj, client.RawPatch(types.ApplyPatchType, inGit), client.FieldOwner("argocd")); err != nil {
				t.Fatal(err)
			}
		}
		sync()
		b.awaitAvailable("in-git", "15", "32Gi")
		b.apply(reservationText("from-git", "12", "1Gi", ""))
		b.awaitPhase("from-git", brokerv1alpha1.ReservationReserved)
		b.awaitAvailable("in-git", "3", "31Gi")
		if err := b.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		version := obj.GetResourceVersion()
		sync()
		capacity, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "resources", "capacity")
		if capacity["cpu"] != "16000m" || capacity["memory"] != "32768Mi" || obj.GetResourceVersion() != version {
			t.Errorf("capacity %v, resource version %s after %s: want the notation in Git, and no change", capacity, obj.GetResourceVersion(), version)
		}
		for _, gone := range []client.Object{&brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "from-git"}}, obj} {
			if err := b.Delete(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			awaitGone(b, gone)
		}
	})

	t.Run("a deleted advertisement offers nothing", func(t *testing.T) {
		if err := b.Delete(t.Context(), adv); err != nil {
			t.Fatal(err)
		}
		awaitGone(b, adv)
		// The broker learns of the deletion a little later, and may serve Reservations until then.
		for n, deadline := 0, time.Now().Add(hangLimit); time.Now().Before(deadline); n++ {
			name := fmt.Sprintf("after-%d", n)
			r := b.withReservation(name)
			await(b, name, r, func(r *brokerv1alpha1.Reservation) string {
				if r.Status.Phase == brokerv1alpha1.ReservationFailed || r.Status.Phase == brokerv1alpha1.ReservationReserved {
					return ""
				}
				return "Failed or Reserved, it is " + string(r.Status.Phase)
			})
			if r.Status.Phase == brokerv1alpha1.ReservationFailed {
				if len(r.Status.Candidates) > 0 || len(r.Status.Rejected) > 0 {
					t.Errorf("the deleted clusters are candidates: %q, %v", r.Status.Message, r.Status.Rejected)
				}
				return
			}
			if err := b.Delete(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		t.Error("Reservations are still served")
	})
}

func (b *bench) withReservation(name string) *brokerv1alpha1.Reservation {
	b.apply(reservationText(name, "1", "1Gi", ""))
	return &brokerv1alpha1.Reservation{}
}

func awaitGone(b *bench, obj client.Object) {
	b.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		err := b.Get(b.t.Context(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%T %q is still there: %v", obj, obj.GetName(), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
