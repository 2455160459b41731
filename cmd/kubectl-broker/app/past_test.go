package app

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// hangLimit ends a wait for something that must happen. It is far longer than the slowest machine needs.
const hangLimit = 5 * time.Minute

// pastBench runs a real broker on a real API server.
type pastBench struct {
	client.Client
	t      *testing.T
	plane  *controlplane.ControlPlane
	broker *process.Process
	store  journal.Store
}

func startBroker(t *testing.T) *pastBench {
	t.Helper()
	plane := controlplanetest.Start(t, func(o *controlplane.Options) { o.Name = "broker" })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, brokerv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.BrokerForProcess(defaultNamespace, defaultJournal)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: defaultNamespace}}); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Install(t.Context(), c, objects); err != nil {
		t.Fatal(err)
	}
	p, err := plane.Processes().Start(process.Spec{
		Name: "broker", Path: controlplanetest.Program(t, "broker"), Layer: process.Controller,
		Args: []string{"--kubeconfig=" + plane.Kubeconfig(), "--namespace=" + defaultNamespace, "--health-probe-bind-address=0", "--metrics-bind-address=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	store, err := journal.NewConfigMaps(plane.RESTConfig(), defaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return &pastBench{Client: c, t: t, plane: plane, broker: p, store: store}
}

func (b *pastBench) apply(text string) {
	b.t.Helper()
	objects, err := manifest.Read([]byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, obj := range objects {
		obj.SetNamespace("default")
		if err := b.Create(b.t.Context(), obj); err != nil {
			b.t.Fatal(err)
		}
	}
}

const (
	pastCluster = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: %[1]s}
spec:
  clusterID: %[1]s
  resources:
    capacity: {cpu: "8", memory: 16Gi}
    allocatable: {cpu: "8", memory: 16Gi}
    allocated: {cpu: "1", memory: 1Gi}
`
	pastReservation = `
apiVersion: broker.fluidos.eu/v1alpha1
kind: Reservation
metadata: {name: %s}
spec:
  requesterID: rome
  requestedResources: {cpu: "%d", memory: 1Gi}
  queuePolicy: %s
  duration: 1h
`
)

// shown is the JSON output of three commands.
type shown struct {
	Status view.Status
	Top    view.Top
	Story  view.Story
}

func (b *pastBench) show(at ...string) (out shown) {
	b.t.Helper()
	for _, one := range []struct {
		args []string
		into any
	}{
		{[]string{"status"}, &out.Status}, {[]string{"top", "clusters"}, &out.Top}, {[]string{"why", "rsv/first", "-n", "default"}, &out.Story},
	} {
		args := append(append(one.args, "--kubeconfig", b.plane.Kubeconfig(), "-o", "json"), at...)
		_, text, talk := run(b.t, args...)
		if err := json.Unmarshal([]byte(text), one.into); err != nil {
			b.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, text, talk)
		}
	}
	return out
}

// settled waits until Reservations have the given phases and all objects show what the journal says, which takes a
// moment longer. It returns what the commands show then and the position of the journal.
func (b *pastBench) settled(phases map[string]brokerv1alpha1.ReservationPhase) (shown, uint64) {
	b.t.Helper()
	for deadline := time.Now().Add(hangLimit); ; time.Sleep(50 * time.Millisecond) {
		before := b.head()
		missing := ""
		for name, want := range phases {
			r := &brokerv1alpha1.Reservation{}
			err := b.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, r)
			if err != nil || r.Status.Phase != want {
				missing = fmt.Sprintf("%s is %s (%s), want %s: %v", name, r.Status.Phase, r.Status.Message, want, err)
			}
		}
		if missing == "" {
			out := b.show()
			missing = "the journal grows"
			if b.head() == before {
				missing = cmp.Diff(out, b.show("--at", fmt.Sprint(before)), ofPast)
			}
			if missing == "" {
				return out, before
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the cluster does not come to rest, or status differs from record %d (-now +replayed):\n%s", before, missing)
		}
	}
}

func (b *pastBench) head() uint64 {
	b.t.Helper()
	verified, err := journal.Verify(b.t.Context(), b.store, defaultJournal, journal.Options{})
	if err != nil {
		return 0
	}
	return verified.Head
}

// age matches how long ago something was.
var age = regexp.MustCompile(` \((in )?[0-9smhd]+( ago)?\)`)

// waited matches how long something has lasted, at the begin of a step.
var waited = regexp.MustCompile(`^(\w+ for )[0-9smhd]+`)

// ofPast ignores what a replay cannot know, see unrecorded.
var ofPast = cmp.Options{
	cmpopts.IgnoreFields(view.Status{}, "At", "Record", "Gaps"),
	cmpopts.IgnoreFields(view.Top{}, "Gaps"),
	cmpopts.IgnoreFields(view.Story{}, "Gaps", "Events"),
	cmpopts.IgnoreTypes(metav1.Time{}),
	cmpopts.IgnoreUnexported(view.Step{}, view.Story{}),
	cmpopts.AcyclicTransformer("withoutDuration", func(s view.Step) view.Step {
		s.Text = waited.ReplaceAllString(s.Text, "$1")
		return s
	}),
	cmp.Transformer("withoutAge", func(f view.Fact) string { return f.Name + ": " + age.ReplaceAllString(f.Text, "") }),
}

func TestPastIsShownAsStatusShowedItThen(t *testing.T) {
	b := startBroker(t)
	b.apply(fmt.Sprintf(pastCluster, "paris") + "---" + fmt.Sprintf(pastCluster, "oslo"))
	for deadline := time.Now().Add(hangLimit); b.head() < 5 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
	}
	b.apply(fmt.Sprintf(pastReservation, "first", 4, "Fail"))
	b.apply(fmt.Sprintf(pastReservation, "second", 5, "Fail"))
	first, second := brokerv1alpha1.ReservationReserved, brokerv1alpha1.ReservationReserved
	early, atEarly := b.settled(map[string]brokerv1alpha1.ReservationPhase{"first": first, "second": second})

	b.apply(fmt.Sprintf(pastReservation, "third", 6, "Queue"))
	if err := b.Delete(t.Context(), &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second"}}); err != nil {
		t.Fatal(err)
	}
	late, atLate := b.settled(map[string]brokerv1alpha1.ReservationPhase{"first": first, "third": brokerv1alpha1.ReservationReserved})
	if cmp.Equal(early, late, ofPast) {
		t.Fatal("nothing changed in between")
	}
	b.broker.Kill()
	if err := b.DeleteAllOf(t.Context(), &brokerv1alpha1.Reservation{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		position uint64
		want     shown
	}{{atEarly, early}, {atLate, late}} {
		got := b.show("--at", fmt.Sprint(tc.position))
		if diff := cmp.Diff(tc.want, got, ofPast); diff != "" {
			t.Errorf("record %d (-then +replayed):\n%s", tc.position, diff)
		}
	}
	open := openConsole(t, b.plane.Kubeconfig(), "")
	if _, body := open("/reservations"); strings.Contains(body, ">second</a>") {
		t.Error("the console shows a deleted Reservation")
	}
	if _, body := open(fmt.Sprintf("/reservations?at=%d", atEarly)); !strings.Contains(body, ">second</a>") || !strings.Contains(body, fmt.Sprintf("up to record %d", atEarly)) {
		t.Errorf("the console does not show record %d:\n%s", atEarly, body)
	}
	_, text, talk := run(t, "status", "--kubeconfig", b.plane.Kubeconfig(), "--at", "0s")
	for _, want := range []string{"replayed from the journal up to record", "since when a condition held"} {
		if !strings.Contains(text, want) {
			t.Errorf("status does not say %q:\n%s%s", want, text, talk)
		}
	}
}
