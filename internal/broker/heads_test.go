package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// passHours lets time pass in which paris changes its offer every ten minutes.
func (f *fleet) passHours(hours int) {
	f.t.Helper()
	for i := range hours * 6 {
		f.advertise("paris", fmt.Sprint(8+i%2), "16Gi")
		time.Sleep(10 * time.Minute)
	}
	synctest.Wait()
}

func TestHeadsOfTheJournalAreSigned(t *testing.T) {
	inFleet(t, func(f *fleet) {
		roots := f.withReceipts()
		f.passHours(20)
		f.kill()
		f.passHours(20)
		heads, err := replay.ReadHeads(context.Background(), f.server.Client(), JournalName)
		runtest.Check(t, err)
		if n := len(heads); n < archive.HeadsKept || n > archive.HeadsKept+2 {
			t.Fatalf("%d heads are stored, want about %d", n, archive.HeadsKept)
		}
		kept, err := journal.ReadKept(context.Background(), f.server.Client(), JournalName, journal.Options{})
		runtest.Check(t, err)
		hashes := map[uint64]string{}
		for _, e := range kept.Entries {
			hashes[e.Position] = e.Hash
		}
		var last *receipt.Head
		for i := range heads {
			h, _, err := receipt.VerifyHead(&heads[i], roots)
			runtest.Check(t, err)
			if want, found := hashes[h.Head.Position]; found && want != h.Head.Hash || h.Head.ID != kept.ID {
				t.Errorf("signed: %+v, the journal has the hash %s", h, want)
			}
			if last != nil && (h.Head.Position <= last.Head.Position || h.SignedAt.Sub(last.SignedAt) > 2*time.Hour) {
				t.Errorf("%+v follows %+v", h, last)
			}
			last = h
		}
		if age := time.Since(last.SignedAt); age > 12*time.Minute {
			t.Errorf("the newest head is %s old", age)
		}
	})
}

func TestAnIdleBrokerSignsTheHeadOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.withReceipts()
		f.advertise("paris", "8", "16Gi")
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		heads, err := replay.ReadHeads(context.Background(), f.server.Client(), JournalName)
		runtest.Check(t, err)
		if len(heads) > 3 {
			t.Errorf("%d heads are stored", len(heads))
		}
	})
}

func TestBrokerWithoutCertificateSignsNoHead(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.passHours(1)
		heads, err := replay.ReadHeads(context.Background(), f.server.Client(), JournalName)
		if err != nil || len(heads) > 0 {
			t.Errorf("%d heads are stored, %v", len(heads), err)
		}
	})
}
