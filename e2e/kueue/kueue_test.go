package kueue

import (
	"context"
	"os"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

var stage = e2etest.Stage[*Environment]{Boot: boot}

func TestMain(m *testing.M) { os.Exit(stage.Run(m)) }

// boot starts the playground with Kueue.
func boot(ctx context.Context, report func(step string)) (*Environment, error) {
	env, err := local.UpForTests(ctx, report)
	if err != nil {
		return nil, err
	}
	return Install(ctx, env, progress.Func(report))
}

func TestStory(t *testing.T) {
	env := stage.Keep(t) // the story removes what an interrupted run has left
	e2etest.Check(t, Story(t.Context(), env, t.Output()))
}
