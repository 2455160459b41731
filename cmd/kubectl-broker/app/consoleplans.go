package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// consolePlans makes plans for the console with the user's rights, as kubectl broker plan does.
type consolePlans struct {
	plugin *plugin

	mu     sync.Mutex
	asked  string
	made   *view.Plan
	madeAt time.Time
}

var _ console.PlanSource = (*consolePlans)(nil)

// Plan implements console.PlanSource. It makes one plan at a time, because a plan of a large broker needs much memory.
// It returns the last plan again if the question is the same and the plan is younger than journalShown.
func (c *consolePlans) Plan(ctx context.Context, q console.PlanQuery) (*view.Plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := fmt.Sprint(q) // fmt sorts the keys of maps
	if c.made != nil && c.asked == asked && c.plugin.now().Sub(c.madeAt) < journalShown {
		return c.made, nil
	}
	plan, err := c.plugin.planQuestion(ctx, q)
	if err != nil {
		return nil, err
	}
	c.asked, c.made, c.madeAt = asked, plan, c.plugin.now()
	return plan, nil
}

// planQuestion runs the command of a question, without printing.
func (p *plugin) planQuestion(ctx context.Context, q console.PlanQuery) (*view.Plan, error) {
	create, known := planners[q.Change]
	if !known {
		return nil, fmt.Errorf("there is no plan %q: choose one of %s", q.Change, strings.Join(slices.Sorted(maps.Keys(planners)), ", "))
	}
	command := create(p)
	for _, name := range slices.Sorted(maps.Keys(q.Flags)) {
		if err := command.Flags().Set(name, q.Flags[name]); err != nil {
			return nil, err
		}
	}
	return command.makePlan(ctx, []string{q.Cluster})
}
