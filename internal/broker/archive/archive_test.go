package archive

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	costs "github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

func TestMonthsAreKeptForTheirRetentionOnEveryDay(t *testing.T) {
	for day := range 31 {
		now := time.Date(2026, time.March, 1+day, 12, 0, 0, 0, time.UTC)
		oldest := costs.Part{Span: costs.Month, Start: Retention{Months: 25}.oldestKept(costs.Month, now)}
		if got := oldest.Name(); got != "month-2024-02" {
			t.Errorf("on %s, %s is the oldest month that is kept", now.Format(time.DateOnly), got)
		}
	}
}

// clock is a Session whose clock is ahead for some time.
type clock struct {
	Session
	ahead atomic.Int64
}

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func TestHeadsAreSignedAfterTheClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, position := &clock{}, uint64(0)
		c.ahead.Store(int64(48 * time.Hour))
		head := func() journal.Anchor {
			position++
			return journal.Anchor{Position: position, Hash: fmt.Sprint(position)}
		}
		signed := 0
		sign := func(journal.Place) *brokerv1alpha1.Receipt {
			signed++
			c.ahead.Store(0)
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		New(c, journaltest.NewServer().Client(), "test", "5c1f").KeepHeads(ctx, logr.Discard(), head, sign, 24*time.Hour)
		if signed < 4 {
			t.Errorf("%d heads were signed in an hour, want one every ten minutes", signed)
		}
	})
}
