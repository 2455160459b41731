package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ctrl.SetLogger and klog keep the first logger that they get, so one test starts the log once.
func TestAllLinesHaveOneFormat(t *testing.T) {
	var out bytes.Buffer
	o := Defaults()
	o.DestWriter = &out
	log := Start(&o)

	log.Info("WARNING: clocks differ", "cluster", "rome")
	log.Error(errors.New("record 7 is damaged"), "journal cannot be read")
	klog.ErrorS(errors.New("connection refused"), "Failed to watch", "type", "Pod")
	klog.Infof("Waited for %s", "1s")
	ending := apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", errors.New("namespace demo is being terminated"))
	klog.ErrorS(ending, "Server rejected event (will not retry!)")
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	klog.ErrorS(ending, "Server rejected event (will not retry!)")
	ctrl.Log.WithName("setup").Info("ready")
	ctrl.Log.Info("Starting EventSource", "source", "func source: 0x1b64aa0")
	ctrl.Log.Info("healthz check failed", "statuses", []struct{}{{}, {}})
	ctrl.Log.WithValues("controller", "reservation").Info("Starting workers", "worker count", 1)

	want := []string{"clocks differ", "journal cannot be read", "Failed to watch", "Waited for 1s", "Server rejected event", "ready"}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out.String())
	}
	for i, line := range lines {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		if !strings.Contains(line, want[i]) {
			t.Errorf("line %d is %s, want %q", i, line, want[i])
		}
		if entry["stacktrace"] != nil {
			t.Errorf("an error has a stack trace: %s", line)
		}
	}
}

func TestStartOfWatchesIsLoggedForDebugging(t *testing.T) {
	var out bytes.Buffer
	o := Defaults()
	o.DestWriter, o.Level = &out, zapcore.DebugLevel
	newLog(&o).Info("Starting EventSource")
	if !strings.Contains(out.String(), `"level":"debug"`) {
		t.Errorf("got %q", out.String())
	}
}
