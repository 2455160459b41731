// Package logging configures the log of the broker and the agent. All lines have one format and one
// level, including those of Kubernetes' client libraries.
package logging

import (
	"slices"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Defaults returns the default options of the log, which flags may change. Errors are logged
// without a stack trace: their messages name the causes, and a trace would only show where the line
// was logged.
func Defaults() zap.Options {
	return zap.Options{StacktraceLevel: zapcore.PanicLevel}
}

// Start creates the log and makes controller-runtime and client-go use it.
func Start(o *zap.Options) logr.Logger {
	log := newLog(o)
	ctrl.SetLogger(log)
	klog.SetLoggerWithOptions(log.WithName("kubernetes"), klog.ContextualLogger(true))
	return log
}

// newLog creates the log. It leaves the options unchanged.
func newLog(o *zap.Options) logr.Logger {
	set := *o
	set.ZapOpts = append(slices.Clip(set.ZapOpts), uberzap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return quiet{core}
	}))
	return zap.New(zap.UseFlagOptions(&set))
}

// quiet is a zapcore.Core that logs some messages of Kubernetes' libraries at debug level or not at
// all. When a manager starts, controller-runtime logs dozens of lines about watches and controllers,
// which contain memory addresses instead of names. It also logs a line for each probe that fails
// before everything has started. client-go logs an error for every event in a namespace that is
// being deleted.
type quiet struct{ zapcore.Core }

// rejectedEvent is the message of client-go for an event that the API server refuses.
const rejectedEvent = "Server rejected event (will not retry!)"

// With implements zapcore.Core.
func (q quiet) With(fields []zapcore.Field) zapcore.Core { return quiet{q.Core.With(fields)} }

// Check implements zapcore.Core.
func (q quiet) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	switch entry.Message {
	case "Starting EventSource", "Starting Controller", "Starting workers", "healthz check failed":
		if entry.Level = zapcore.DebugLevel; !q.Enabled(entry.Level) {
			return checked
		}
	case rejectedEvent:
		if q.Enabled(entry.Level) {
			return checked.AddCore(entry, q)
		}
	}
	return q.Core.Check(entry, checked)
}

// Write implements zapcore.Core.
func (q quiet) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Message == rejectedEvent && slices.ContainsFunc(fields, isOfEndingNamespace) {
		return nil
	}
	return q.Core.Write(entry, fields)
}

// isOfEndingNamespace reports whether a field of a log entry is the error with which the API server
// refuses an object in a namespace that is being deleted.
func isOfEndingNamespace(field zapcore.Field) bool {
	err, _ := field.Interface.(error)
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
