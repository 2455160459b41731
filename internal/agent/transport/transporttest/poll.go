package transporttest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// pollEntries returns the entries after cursor and the next cursor. If there are none, it waits for
// one until the time wait is over. The function all is called with mu locked. It returns all
// entries, and whether to answer at once even if there are none after cursor.
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

// parsePosition returns the position in a cursor. It returns 0, the beginning, if the cursor is
// from another journal or its position does not exist yet. The caller must hold mu.
func (b *Broker) parsePosition(cursor string) int {
	journal, position, _ := strings.Cut(cursor, "/")
	after, err := strconv.Atoi(position)
	if err != nil || journal != strconv.Itoa(b.journal) || after > b.position {
		return 0
	}
	return after
}

// notifyChange wakes all goroutines that wait for a call, an instruction or a message. The caller
// must hold mu.
func (b *Broker) notifyChange() {
	close(b.changed)
	b.changed = make(chan struct{})
}
