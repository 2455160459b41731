package app

import (
	"context"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// consolePast replays the journal for the console with the user's rights, as kubectl broker status --at does.
type consolePast struct {
	plugin     *plugin
	connection *connection

	mu     sync.Mutex
	asked  string
	shown  *view.Snapshot
	readAt time.Time
}

var _ console.PastSource = (*consolePast)(nil)

// At implements console.PastSource. It replays one time at a time, and returns it again if it is younger than journalShown.
func (c *consolePast) At(ctx context.Context, text string) (*view.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown != nil && c.asked == text && c.plugin.now().Sub(c.readAt) < journalShown {
		return c.shown, nil
	}
	o := &pastOptions{at: text, journal: defaultJournal, namespace: c.connection.journalNamespace()}
	shown, err := c.plugin.gatherAt(ctx, c.connection, o, c.connection.scopeNamespace(), whole)
	if err != nil {
		return nil, err
	}
	c.asked, c.shown, c.readAt = text, shown, c.plugin.now()
	return shown, nil
}
