package local

import (
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

func TestStory(t *testing.T) {
	env := playgroundOf(t)
	samples, err := e2e.ShippedSamples()
	check(t, err)
	figures, err := e2e.Story(t.Context(), env.Environment, samples, t.Output())
	check(t, err)
	t.Log(figures)
}
