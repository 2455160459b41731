package local

import (
	"context"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

func TestStory(t *testing.T) {
	env, err := Up(context.Background(), Options{Progress: progress.Func(func(step string) { t.Log(step) })})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Stop()
	samples, err := e2e.ShippedSamples()
	if err != nil {
		t.Fatal(err)
	}
	figures, err := e2e.Story(t.Context(), env.Environment, samples, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(figures)
}
