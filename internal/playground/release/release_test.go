package release_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// programVariable makes this test binary run as the program in the container.
const programVariable = "RELEASE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		program(os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// program answers with its name, its greeting and a file of its volume. As a hook it ends at once.
func program(args []string) {
	flags := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	if verdict, isHook := flags["verdict"]; isHook {
		fmt.Println("the hook says", verdict)
		if verdict == "no" {
			os.Exit(1)
		}
		return
	}
	listener, err := net.Listen("tcp", flags["bind-address"])
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		secret, err := os.ReadFile(filepath.Join(flags["folder"], "word"))
		fmt.Fprint(w, os.Getenv("POD_NAME"), " ", flags["greeting"], " ", string(secret), err)
	})}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-told.Done()
	time.Sleep(100 * time.Millisecond)                            // a Service may still send connections during this time
	if err := server.Shutdown(context.Background()); err != nil { // it answers the calls in progress
		panic(err)
	}
}

// greeter is a chart with every feature that a release supports.
var greeter = fstest.MapFS{
	"Chart.yaml":  {Data: []byte("apiVersion: v2\nname: greeter\nversion: 0.1.0\n")},
	"values.yaml": {Data: []byte("greeting: hello\nverdict: \"no\"\nextra: true\n")},
	"templates/objects.yaml": {Data: []byte(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: greeter}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: kept
  annotations: {helm.sh/resource-policy: keep}
---
{{- if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
---
{{- end }}
apiVersion: v1
kind: Service
metadata: {name: greeter}
spec:
  selector: {app: greeter}
  ports: [{name: http, port: 80, targetPort: http}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: greeter}
spec:
  replicas: 2
  selector: {matchLabels: {app: greeter}}
  template:
    metadata: {labels: {app: greeter}}
    spec:
      serviceAccountName: greeter
      containers:
      - name: greeter
        image: example.org/greeter
        args: ["--bind-address=:8080", "--greeting={{ .Values.greeting }}", "--folder=/etc/words"]
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: RELEASE_TEST_PROGRAM, value: "1"}
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}}
        volumeMounts: [{name: words, mountPath: /etc/words}]
      volumes: [{name: words, secret: {secretName: words}}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: goodbye
  annotations: {helm.sh/hook: pre-delete}
spec:
  template:
    spec:
      restartPolicy: Never
      serviceAccountName: greeter
      containers:
      - name: greeter
        image: example.org/greeter
        args: ["--verdict={{ .Values.verdict }}"]
        env: [{name: RELEASE_TEST_PROGRAM, value: "1"}]
`)},
}

// site is a cluster with the chart in it.
type site struct {
	client.Client
	t       *testing.T
	release *release.Release
	url     string
}

func newSite(t *testing.T) *site {
	t.Helper()
	cluster := controlplanetest.Start(t)
	s := &site{t: t}
	var err error
	s.Client, err = client.New(cluster.RESTConfig(), client.Options{})
	s.check(err)
	s.release, err = release.New(release.Options{
		Cluster: cluster, Chart: greeter, Name: "greeter", Namespace: "greetings",
		Programs: map[string]release.Program{"greeter": {Path: os.Args[0]}},
	})
	s.check(err)
	port, err := release.ServicePort(cluster, "greeter", "greeter", "http")
	s.check(err)
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	return s
}

func (s *site) check(err error) {
	s.t.Helper()
	runtest.Check(s.t, err)
}

// say writes the word into the volume's Secret.
func (s *site) say(word string) {
	s.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "greetings", Name: "words"}, Data: map[string][]byte{"word": []byte(word)},
	}
	err := s.Create(s.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.Update(s.t.Context(), secret)
	}
	s.check(err)
}

// awaitAnswers asks the Service until the pods have given all the answers.
func (s *site) awaitAnswers(answers ...string) {
	s.t.Helper()
	missing := map[string]bool{}
	for _, a := range answers {
		missing[a] = true
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		answer, err := once.Get(s.url)
		if err != nil {
			return false, err
		}
		defer answer.Body.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
		body, err := io.ReadAll(answer.Body)
		delete(missing, string(body))
		return len(missing) == 0, err
	})
	if err != nil {
		s.t.Fatalf("never heard %v: %v", missing, err)
	}
}

func (s *site) exists(name string) bool {
	s.t.Helper()
	err := s.Get(s.t.Context(), client.ObjectKey{Namespace: "greetings", Name: name}, &corev1.ConfigMap{})
	s.check(client.IgnoreNotFound(err))
	return err == nil
}

func TestReleaseLifecycle(t *testing.T) {
	s := newSite(t)
	s.check(s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "greetings"}}))
	s.say("world")
	s.check(s.release.Apply(t.Context(), map[string]any{}))
	s.awaitAnswers("greeter-0 hello world<nil>", "greeter-1 hello world<nil>")

	t.Log("its volumes follow their Secret")
	pids := s.pids()
	s.say("moon")
	s.awaitAnswers("greeter-0 hello moon<nil>", "greeter-1 hello moon<nil>")
	if now := s.pids(); now != pids {
		t.Errorf("processes %s were replaced by %s", pids, now)
	}

	t.Log("an upgrade that changes no pod leaves them, and takes away what is no longer rendered")
	s.check(s.release.Apply(t.Context(), map[string]any{"extra": false}))
	if now := s.pids(); now != pids || s.exists("extra") {
		t.Errorf("processes %s were replaced by %s, or the extra ConfigMap is there still", pids, now)
	}

	t.Log("one that does replaces them while the Service answers")
	done := make(chan error, 1)
	go func() { done <- s.release.Apply(t.Context(), map[string]any{"greeting": "hi", "extra": false}) }()
	for upgrading := true; upgrading; {
		select {
		case err := <-done:
			s.check(err)
			upgrading = false
		default:
			answer, err := http.Get(s.url)
			s.check(err)
			s.check(answer.Body.Close())
		}
	}
	s.awaitAnswers("greeter-0 hi moon<nil>", "greeter-1 hi moon<nil>")

	t.Log("a hook that fails keeps everything")
	if err := s.release.Uninstall(t.Context()); err == nil || !strings.Contains(err.Error(), "the hook says no") {
		t.Errorf("got %v, want the hook's refusal", err)
	}
	s.awaitAnswers("greeter-0 hi moon<nil>", "greeter-1 hi moon<nil>")

	t.Log("what is gone is gone, but for what the chart keeps")
	s.check(s.release.Apply(t.Context(), map[string]any{"verdict": "yes"}))
	s.check(s.release.Uninstall(t.Context()))
	if pods := s.release.Pods(""); len(pods) > 0 || s.exists("extra") || !s.exists("kept") {
		t.Errorf("%d pods are left; extra ConfigMap: %v, kept one: %v", len(pods), s.exists("extra"), s.exists("kept"))
	}
}

// pids returns the process IDs of the pods.
func (s *site) pids() string {
	var pids []string
	for _, p := range s.release.Pods("greeter") {
		pids = append(pids, fmt.Sprint(p.Process().Pid()))
	}
	return strings.Join(pids, " ")
}
