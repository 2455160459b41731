package identity

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity/identitytest"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// envAgent is an environment variable that makes the test binary an agent, which exits once it has
// the certificate. Its value has one argument of runAgent in each line: kubeconfig, Secret,
// directory, enrolment URL, CA hash, token, broker's URL.
const envAgent = "LRB_TEST_AGENT"

func TestMain(m *testing.M) {
	if arguments := os.Getenv(envAgent); arguments != "" {
		if err := runAgent(strings.Split(arguments, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runAgent enrols the cluster, or renews the certificate that is stored in the Secret.
func runAgent(a []string) error {
	kubeconfig, name, dir, enrolmentURL, hash, token, url := a[0], a[1], a[2], a[3], a[4], a[5], a[6]
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	enroller, err := httptransport.NewEnroller(httptransport.EnrollerOptions{URL: enrolmentURL, CAHashes: []string{hash}, Now: time.Now})
	if err != nil {
		return err
	}
	k := New(Options{
		Client: clientset, Secret: types.NamespacedName{Namespace: "default", Name: name}, Dir: dir, ClusterID: "rome",
		Enroller: enroller, Token: token, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	first, err := k.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", err, k.Trouble())
	}
	if url == "" {
		return nil
	}
	files, err := pki.OpenFiles(dir, time.Now)
	if err != nil {
		return err
	}
	tr, err := httptransport.New(httptransport.Options{URLs: []string{url}, Files: files})
	if err != nil {
		return err
	}
	k.RenewWith(tr, elected())
	_, err = k.runSteps(ctx, func(c *Certificate) bool { return c != nil && (!c.sameAs(first) || !RenewalTime(c).Before(time.Now())) })
	return err
}

// testKilled kills an agent at every step of enrolment and renewal. Each time the next process
// continues with the stored key, so the token bound to that key works.
func testKilled(t *testing.T, h *home, kubeconfig string) {
	h.Site = identitytest.New(t, clock.RealClock{})
	h.overwrite(t, func(map[string][]byte) {})
	run := func(t *testing.T, url string) {
		t.Helper()
		arguments := []string{kubeconfig, h.secret.Name, h.dir, h.EnrolmentURL, h.CAHash(t), identitytest.Token, url}
		once := t.TempDir()
		for range 2 * len(failpoint.Identity) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), append(failpoint.Arm(once, failpoint.Identity...), envAgent+"="+strings.Join(arguments, "\n"))...)
			output, err := cmd.CombinedOutput()
			if err == nil {
				break
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("agent: %v: %s", err, output)
			}
		}
		traces, err := filepath.Glob(filepath.Join(once, "*"))
		if err != nil || len(traces) != len(failpoint.Identity) {
			t.Errorf("killed at %v, want each of %v", traces, failpoint.Identity)
		}
		h.wantIdentity(t)
	}
	t.Run("enrolment", func(t *testing.T) {
		run(t, "")
		if keys := slices.Compact(slices.Sorted(slices.Values(h.Enrolled()))); len(keys) != 1 {
			t.Errorf("enrolled with %d keys", len(keys))
		}
	})
	t.Run("renewal", func(t *testing.T) {
		// Two thirds of the lifetime of this certificate are over, so that a renewal is due.
		old := certifiedBy(t, h.Registry, "rome", time.Now().Add(-50*time.Minute), time.Hour)
		h.overwrite(t, func(data map[string][]byte) {
			clear(data)
			maps.Copy(data, State{Certificate: old}.secretData())
		})
		enrolled, renewed := len(h.Enrolled()), len(h.Renewed())
		run(t, h.URL)
		if keys := slices.Compact(slices.Sorted(slices.Values(h.Renewed()[renewed:]))); len(keys) != 1 || len(h.Enrolled()) != enrolled {
			t.Errorf("renewed with %d keys, enrolled %d times", len(keys), len(h.Enrolled())-enrolled)
		}
	})
}
