package transporttest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// pollEntries returns the entries after cursor, and waits for the first. all is called with mu held, and says
// whether to return without any.
func pollEntries[T any](ctx context.Context, b *Broker, cursor string, wait time.Duration, all func() ([]entry[T], bool)) ([]T, string, error) {
	enough := time.NewTimer(wait)
	defer enough.Stop()
	for {
		b.mu.Lock()
		after, next, changed := b.parsePosition(cursor), fmt.Sprintf("%d/%d", b.journal, b.position), b.changed
		var news []T
		entries, atOnce := all()
		for _, e := range entries {
			if e.position > after {
				news = append(news, e.news)
			}
		}
		down := b.down
		b.mu.Unlock()
		if down {
			return nil, "", errDown
		}
		if len(news) > 0 || atOnce || wait <= 0 {
			return news, next, nil
		}
		select {
		case <-changed:
		case <-enough.C:
			wait = 0
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// parsePosition needs mu. A cursor of another journal, or ahead of this one, means from the
// start.
func (b *Broker) parsePosition(cursor string) int {
	journal, position, _ := strings.Cut(cursor, "/")
	after, err := strconv.Atoi(position)
	if err != nil || journal != strconv.Itoa(b.journal) || after > b.position {
		return 0
	}
	return after
}

// notifyChange needs mu.
func (b *Broker) notifyChange() {
	close(b.changed)
	b.changed = make(chan struct{})
}
