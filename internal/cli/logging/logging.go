// Package logging configures the log of broker and agent: one format for all lines, including those
// of Kubernetes' client libraries, at the level that the flags set.
package logging

import (
	"slices"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Defaults returns the options before the flags are read. Errors are logged without stack trace:
// they name their causes, and a trace of the place that logs them adds nothing.
func Defaults() zap.Options {
	return zap.Options{StacktraceLevel: zapcore.PanicLevel}
}

// Start creates the log, and makes controller-runtime and client-go write to it.
func Start(o *zap.Options) logr.Logger {
	log := newLog(o)
	ctrl.SetLogger(log)
	klog.SetLoggerWithOptions(log.WithName("kubernetes"), klog.ContextualLogger(true))
	return log
}

// newLog does not change the options.
func newLog(o *zap.Options) logr.Logger {
	set := *o
	set.ZapOpts = append(slices.Clip(set.ZapOpts), uberzap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return quietStart{core}
	}))
	return zap.New(zap.UseFlagOptions(&set))
}

// quietStart logs at debug level what controller-runtime says of each watch and controller that
// starts, dozens of lines that identify a watch by its address in memory, and of each probe before
// all have started, without names.
type quietStart struct{ zapcore.Core }

// With implements zapcore.Core.
func (q quietStart) With(fields []zapcore.Field) zapcore.Core { return quietStart{q.Core.With(fields)} }

// Check implements zapcore.Core.
func (q quietStart) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	switch entry.Message {
	case "Starting EventSource", "Starting Controller", "Starting workers", "healthz check failed":
		if entry.Level = zapcore.DebugLevel; !q.Enabled(entry.Level) {
			return checked
		}
	}
	return q.Core.Check(entry, checked)
}
