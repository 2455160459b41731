package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
)

// accountantCommand is the command that runs only that part of the agent which counts the usage of a cluster. With
// -informer, the command runs a plain informer for pods instead.
const accountantCommand = "accountant"

func runAccountant(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(accountantCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "cluster to keep account of")
	control := flags.String("control", "", "address of the control server")
	informer := flags.Bool("informer", false, "keep the pods in a plain informer's cache")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /heap", tellHeap)
	ready := func(known func() bool) {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			if !known() {
				http.Error(w, "not all is known", http.StatusServiceUnavailable)
			}
		})
	}
	if *informer {
		pods := informers.NewSharedInformerFactory(clientset, 0).Core().V1().Pods().Informer()
		ready(pods.HasSynced)
		watch := func(ctx context.Context) error { pods.RunWithContext(ctx); return nil }
		return runAll(ctx, watch, serve(*control, mux))
	}
	watcher := capacity.New(clientset)
	ready(func() bool {
		select {
		case <-watcher.Synced():
			return true
		default:
			return false
		}
	})
	mux.HandleFunc("GET /advertise", tellPasses(watcher))
	return runAll(ctx, watcher.Start, serve(*control, mux))
}

// betweenPasses is the shortest pause between two reconciliations in the agent.
const betweenPasses = 250 * time.Millisecond

// tellPasses returns a handler that reconciles the Advertisement a number of times, and writes the duration of each
// reconciliation in nanoseconds. Pod events continue in the meantime.
func tellPasses(watcher *capacity.Watcher) http.HandlerFunc {
	objects, none := &memory{}, func(context.Context) *metav1.Condition { return nil }
	advertises := advertisement.New(objects, objects, watcher, &events.FakeRecorder{}, advertisement.Options{
		ClusterID: "rome", EndpointURL: "https://rome.example:6443", Settings: &advertisement.FileSettings{}, Interval: 30 * time.Second,
		Name: "cluster-advertisement", Namespace: "default", InstructionNamespace: "default",
		Certificate: none, Guarded: none, Liqo: none, NoteJournal: func(string) {}, Clock: &hasty{now: time.Now()},
	})
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var took []time.Duration
		for range n {
			sleep(r.Context(), betweenPasses)
			began, told := time.Now(), objects.told
			_, err := advertises.Reconcile(r.Context(), reconcile.Request{})
			took = append(took, time.Since(began))
			if err == nil && objects.told == told {
				err = fmt.Errorf("pass %d advertised nothing", len(took))
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_ = json.NewEncoder(w).Encode(took) // an error means that the client has gone
	}
}

// hasty is a clock that advances by an hour each time it is read, so that every reconciliation advertises.
type hasty struct{ now time.Time }

func (h *hasty) Now() time.Time {
	h.now = h.now.Add(time.Hour)
	return h.now
}

func (h *hasty) Since(t time.Time) time.Duration { return h.now.Sub(t) }

// memory acts as the agent's cache, which contains only an Advertisement, and as a broker that accepts everything.
// Reads return copies, as the cache does.
type memory struct {
	client.Client
	advertisement *agentv1alpha1.Advertisement
	told          int
}

func (m *memory) PublishAdvertisement(context.Context, *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	m.told++
	return &v1.AdvertisementReceipt{}, nil
}

func (m *memory) Ping(context.Context) (*v1.Pong, error) { return &v1.Pong{ApiMinor: v1.Minor}, nil }

func (m *memory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	out, ok := into.(*agentv1alpha1.Advertisement)
	if !ok || m.advertisement == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	m.advertisement.DeepCopyInto(out)
	return nil
}

func (m *memory) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (m *memory) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return m.keep(obj)
}

func (m *memory) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return m.keep(obj)
}

func (m *memory) Status() client.SubResourceWriter { return status{memory: m} }

func (m *memory) keep(obj client.Object) error {
	obj.SetGeneration(obj.GetGeneration() + 1)
	obj.SetResourceVersion(strconv.FormatInt(obj.GetGeneration(), 10))
	m.advertisement = obj.(*agentv1alpha1.Advertisement).DeepCopy()
	return nil
}

// status writes the status of the Advertisement.
type status struct {
	client.SubResourceWriter
	memory *memory
}

func (s status) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.memory.advertisement = obj.(*agentv1alpha1.Advertisement).DeepCopy()
	return nil
}
