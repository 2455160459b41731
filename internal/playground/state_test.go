package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestKeptStateIsUsedOnlyIfItFitsAndBoots(t *testing.T) {
	const setup = "v2"
	corrupt := errors.New("etcd: database is corrupt")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx    context.Context
		marker string  // the marker of an earlier boot; empty if it was interrupted
		boots  []error // the result of each boot
		// wantKept is true if the last boot must find the earlier state.
		wantKept, wantComplete bool
		wantErr                error
	}{
		"complete state is used":                   {marker: setup, boots: []error{nil}, wantKept: true, wantComplete: true},
		"an interrupted boot starts anew":          {boots: []error{nil}, wantComplete: true},
		"state of another setup is deleted":        {marker: "v1", boots: []error{nil}, wantComplete: true},
		"damaged state is replaced":                {marker: setup, boots: []error{corrupt, nil}, wantComplete: true},
		"new state that does not boot is an error": {boots: []error{corrupt}, wantErr: corrupt},
		"damage is repaired once":                  {marker: setup, boots: []error{corrupt, corrupt}, wantErr: corrupt},
		"a slow machine keeps its state": {
			marker: setup, boots: []error{fmt.Errorf("etcd: %w", context.DeadlineExceeded)},
			wantKept: true, wantComplete: true, wantErr: context.DeadlineExceeded,
		},
		"a foreign program on a port keeps the state": {
			marker: setup, boots: []error{fmt.Errorf("port 20000: %w", controlplane.ErrPortTaken)},
			wantKept: true, wantComplete: true, wantErr: controlplane.ErrPortTaken,
		},
		"an interrupt keeps the state": {
			ctx: interrupted, marker: setup, boots: []error{context.Canceled},
			wantKept: true, wantComplete: true, wantErr: context.Canceled,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := openState(t.TempDir())
			runtest.Check(t, err)
			defer s.close() //nolint:errcheck // the folder belongs to the test
			former := filepath.Join(s.clusterDir("rome"), "former")
			runtest.Check(t, os.MkdirAll(former, 0o755))
			if test.marker != "" {
				runtest.Check(t, os.WriteFile(s.marker(), []byte(test.marker), 0o644))
			}
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}

			boots, kept := 0, false
			_, err = s.boot(ctx, setup, progress.Discard, func() (*Playground, error) {
				_, missing := os.Stat(former)
				kept = missing == nil
				boots++
				return &Playground{}, test.boots[boots-1]
			})

			if !errors.Is(err, test.wantErr) {
				t.Errorf("got error %v, want %v", err, test.wantErr)
			}
			_, missing := os.Stat(s.marker())
			got := []any{boots, kept, missing == nil}
			if diff := cmp.Diff([]any{len(test.boots), test.wantKept, test.wantComplete}, got); diff != "" {
				t.Errorf("boots, state was kept, state is complete (-want +got):\n%s", diff)
			}
		})
	}
}
