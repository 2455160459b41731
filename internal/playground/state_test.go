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
)

func TestKeptStateIsUsedOnlyIfItFitsAndBoots(t *testing.T) {
	const setup = "v2"
	corrupt := errors.New("etcd: database is corrupt")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx    context.Context
		marker string  // what a former boot left; empty if it was cut off
		boots  []error // what each boot finds
		// wantKept tells whether the last boot saw the former state.
		wantKept, wantComplete bool
		wantErr                error
	}{
		"complete state is used":                   {marker: setup, boots: []error{nil}, wantKept: true, wantComplete: true},
		"a boot that was cut off starts anew":      {boots: []error{nil}, wantComplete: true},
		"state of another setup is thrown away":    {marker: "v1", boots: []error{nil}, wantComplete: true},
		"damaged state is made anew":               {marker: setup, boots: []error{corrupt, nil}, wantComplete: true},
		"new state that does not boot is an error": {boots: []error{corrupt}, wantErr: corrupt},
		"damage is repaired once":                  {marker: setup, boots: []error{corrupt, corrupt}, wantErr: corrupt},
		"a slow machine costs no state": {
			marker: setup, boots: []error{fmt.Errorf("etcd: %w", context.DeadlineExceeded)},
			wantKept: true, wantComplete: true, wantErr: context.DeadlineExceeded,
		},
		"a foreign program on a port costs no state": {
			marker: setup, boots: []error{fmt.Errorf("port 20000: %w", controlplane.ErrPortTaken)},
			wantKept: true, wantComplete: true, wantErr: controlplane.ErrPortTaken,
		},
		"an interrupt costs no state": {
			ctx: interrupted, marker: setup, boots: []error{context.Canceled},
			wantKept: true, wantComplete: true, wantErr: context.Canceled,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := openState(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.close() //nolint:errcheck // the folder is the test's own
			former := filepath.Join(s.clusterDir("rome"), "former")
			if err := os.MkdirAll(former, 0o755); err != nil {
				t.Fatal(err)
			}
			if test.marker != "" {
				if err := os.WriteFile(s.marker(), []byte(test.marker), 0o644); err != nil {
					t.Fatal(err)
				}
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
