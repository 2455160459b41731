package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// withBudget runs test in a fleet with a small rome and a very large paris. edit changes the
// default budget.
func withBudget(t *testing.T, edit func(*budget.Budget), test func(f *fleet)) {
	t.Helper()
	inFleet(t, func(f *fleet) {
		c := settings.Default()
		edit(&c.Budget)
		f.SetConfig(context.Background(), c)
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "100000", "64Ti")
		test(f)
	})
}

// inSession calls look with the broker's session, under the broker's lock. The broker also changes
// the session when deadlines pass, so reading it without the lock would be a race.
func (f *fleet) inSession(look func(t *session)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	look(f.session)
}

// records returns the position of the newest record, which is the number of records so far.
func (f *fleet) records() (n uint64) {
	f.inSession(func(t *session) { n = t.book.Position() })
	return n
}

// remembered counts a member's reservations in the book.
func (f *fleet) remembered(member string) (n int) {
	f.inSession(func(t *session) {
		t.book.Reservations(func(r *ledger.Reservation) {
			if r.Requester == member {
				n++
			}
		})
	})
	return n
}

// used returns the usage that the book has for a cluster, by placement.
func (f *fleet) used(cluster string) (used map[string]quantity.Amounts) {
	f.inSession(func(t *session) { used = maps.Clone(t.book.Cluster(cluster).Used) })
	return used
}

func (f *fleet) wantStopped(err error, figure, detail string) {
	f.t.Helper()
	stopped, ok := errors.AsType[*fault.Error](err)
	if !ok || stopped.Figure != figure || !strings.Contains(stopped.Detail, detail) || stopped.RetryAfter <= 0 {
		f.t.Fatalf("got %v, want a refusal by figure %q with %q", err, figure, detail)
	}
}

func TestJournalBudgetLimitsMember(t *testing.T) {
	const most = 1 << 20
	withBudget(t, func(b *budget.Budget) { b.JournalPerHour = most }, func(f *fleet) {
		began := f.records()
		var err error
		calls := 0
		for ; calls < 100_000 && err == nil; calls++ {
			_, err = f.ReleaseReservation(context.Background(), "evil", fmt.Sprintf("unknown-key-%06d", calls), "")
		}
		f.wantStopped(err, "journal", "of 1048576 bytes")
		if records := f.records() - began; records > 2*most/256 {
			t.Errorf("%d records were written", records)
		}
		f.advertise("paris", "100000", "64Ti")
		f.reserve("rome", "request-1", request("1", "1Gi"))
		time.Sleep(time.Hour)
		if _, err := f.ReleaseReservation(context.Background(), "evil", "unknown-key-again", ""); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

func TestClockSetBackUsesUpNoBudget(t *testing.T) {
	inFleet(t, func(f *fleet) {
		var back atomic.Int64
		f.restartWithClock(func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
		f.advertise("paris", "16", "64Gi")
		f.reserve("rome", "request-1", request("1", "1Gi"))
		back.Store(int64(10 * time.Minute))
		f.reserve("rome", "request-2", request("1", "1Gi"))
	})
}

func TestBookForgetsOldestOverBudget(t *testing.T) {
	withBudget(t, func(b *budget.Budget) { b.Reservations, b.JournalPerHour = 100, 1<<30 }, func(f *fleet) {
		kept := f.reserve("rome", "kept-0001", request("1", "1Gi"))
		for i := range 500 {
			key := fmt.Sprintf("request-%04d", i)
			r := f.reserve("rome", key, request("1", "1Gi"))
			f.release("rome", key)
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
			f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		}
		if n := f.remembered("rome"); n > 100 {
			t.Errorf("%d reservations are remembered", n)
		}
		f.get("rome", kept.Name)
		for i := range 99 {
			f.reserve("rome", fmt.Sprintf("stands-%04d", i), request("1", "1Gi"))
		}
		_, err := f.RequestReservation(context.Background(), "rome", "one-too-many", request("1", "1Gi"))
		f.wantStopped(err, "reservations", "holds 100 of 100 reservations")
		f.reserve("oslo", "request-1", request("1", "1Gi"))
		f.kill()
		if n := f.remembered("rome"); n != 100 {
			t.Errorf("after a restart %d are counted", n)
		}
	})
}

// A request may list many clusters, so that its reservation counts several times.
func TestLongRequirementsCountSeveralTimes(t *testing.T) {
	withBudget(t, func(b *budget.Budget) { b.Reservations = 10 }, func(f *fleet) {
		req := request("1", "1Gi")
		req.Constraints = &v1.Constraints{}
		for i := range 64 {
			req.Constraints.ExcludeClusters = append(req.Constraints.ExcludeClusters, fmt.Sprintf("a-cluster-with-a-long-name-%010d", i))
		}
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = f.RequestReservation(context.Background(), "rome", fmt.Sprintf("request-%04d", n), req)
		}
		f.wantStopped(err, "reservations", "of 10 reservations")
		if n > 8 {
			t.Errorf("%d large ones were taken where ten plain ones fit", n)
		}
	})
}

func TestClosedKeysAreForgottenAfterADay(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		for i := range 600 {
			f.release("rome", fmt.Sprintf("unknown-%06d", i))
		}
		time.Sleep(retain - time.Minute)
		synctest.Wait()
		f.inSession(func(s *session) {
			n := 0
			s.book.ClosedKeys(func(ledger.CloseKey, time.Time) { n++ })
			if n != 600 {
				t.Errorf("%d keys are closed before their day is over", n)
			}
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		f.inSession(func(s *session) {
			n := 0
			s.book.ClosedKeys(func(ledger.CloseKey, time.Time) { n++ })
			if n != 0 {
				t.Errorf("%d keys are still closed", n)
			}
		})
	})
}

func TestMemberCannotFillQueue(t *testing.T) {
	withBudget(t, func(b *budget.Budget) { b.Waiting = 5 }, func(f *fleet) {
		for i := range 5 {
			f.reserve("evil", fmt.Sprintf("request-%04d", i), waiting("200000", "1Gi"))
		}
		_, err := f.RequestReservation(context.Background(), "evil", "request-more", waiting("200000", "1Gi"))
		f.wantStopped(err, "waiting", "5 of 5 requests waiting")
		f.reserve("rome", "request-1", waiting("200000", "1Gi"))
	})
}

func TestMessagesOfOneMemberAreBounded(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		f.reserve("rome", "request-1", request("1", "1Gi"))
		body := make([]byte, 100_000)
		var err error
		n := 0
		for ; err == nil && n < 64; n++ {
			err = f.SendMessage(context.Background(), "rome", &v1.Message{To: "paris", Slot: fmt.Sprint("slot-", n), Body: body})
		}
		f.wantStopped(err, "messages", "of 4194304 bytes")
		if err := f.SendMessage(context.Background(), "paris", &v1.Message{To: "rome", Slot: "answer", Body: body}); err != nil {
			t.Errorf("another member: %v", err)
		}
		got, cursor := 0, ""
		for range 10 {
			list, err := f.ReceiveMessages(context.Background(), "paris", cursor, 0)
			runtest.Check(t, err)
			size := 0
			for _, m := range list.Messages {
				size += len(m.Body)
			}
			if size > 1<<20 {
				t.Errorf("one answer has %d bytes", size)
			}
			got, cursor = got+len(list.Messages), list.Cursor
		}
		if got != n-1 {
			t.Errorf("%d of %d messages arrived", got, n-1)
		}
	})
}

func TestInstructionsComeInPages(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		for i := range 2*pageOfInstructions + 7 {
			f.reserve("rome", fmt.Sprintf("request-%05d", i), request("1", "1Gi"))
		}
		seen, cursor := map[string]bool{}, ""
		for range 4 {
			list := f.poll("paris", cursor)
			if len(list.Instructions) > pageOfInstructions {
				t.Errorf("%d instructions in one answer", len(list.Instructions))
			}
			for _, in := range list.Instructions {
				seen[in.Reservation] = true
			}
			cursor = list.Cursor
		}
		if len(seen) != 2*pageOfInstructions+7 {
			t.Errorf("%d reservations were told of", len(seen))
		}
		if list := f.poll("paris", cursor); len(list.Instructions) != 0 {
			t.Errorf("%d instructions come again", len(list.Instructions))
		}
	})
}

// An honest advertisement with many placements must fit into the journal, and its usage must be the
// same after a restart.
func TestLargeAdvertisementIsWrittenInParts(t *testing.T) {
	for name, size := range map[string]struct{ usages, shapes int }{
		"some hundred placements": {1500, 64},
		"the most there may be":   {4096, 256},
	} {
		t.Run(name, func(t *testing.T) {
			withBudget(t, func(b *budget.Budget) { b.JournalPerHour = unlimited }, func(f *fleet) {
				f.advertise("oslo", "100000", "64Ti")
				var held []string
				for i := range size.usages {
					held = append(held, f.reserve("rome", fmt.Sprint("key-", i), &v1.ReservationRequest{
						Resources: v1.Amounts{"cpu": "100m", "memory": "256Mi"}, TargetClusterID: "oslo",
					}).Name)
				}
				large := func(cpu string) func(*v1.Advertisement) {
					return func(a *v1.Advertisement) {
						for _, name := range held {
							a.Usage = append(a.Usage, v1.Usage{Reservation: name, Placement: 1, Used: v1.Amounts{"cpu": cpu, "memory": "256Mi", "pods": "3"}})
						}
						for i := range size.shapes {
							a.NodeShapes = append(a.NodeShapes, v1.NodeShape{Count: 1, Free: v1.Amounts{"cpu": fmt.Sprint(i, "m"), "memory": "1Gi", "pods": "10"}})
						}
					}
				}
				for _, cpu := range []string{"100m", "300m"} {
					f.advertise("oslo", "100000", "64Ti", large(cpu))
					var claimed int64
					f.inSession(func(s *session) {
						if _, err := s.RecordOffers(); err != nil {
							t.Fatal(err)
						}
						claimed = s.book.Cluster("oslo").Claimed()[corev1.ResourceMemory]
					})
					time.Sleep(100 * time.Millisecond) // until the journal has stored the advertisement
					if want := int64(size.usages) * 256 << 20; claimed != want {
						t.Errorf("%d of memory is claimed, want %d", claimed, want)
					}
				}
				used := f.used("oslo")
				f.kill()
				again := f.used("oslo")
				if len(again) != len(used) || again[held[7]+"-1"][corev1.ResourceCPU] != 300 {
					t.Errorf("after a restart %d placements use %v", len(again), again[held[7]+"-1"])
				}
				f.advertise("oslo", "100000", "64Ti")
				if n := len(f.used("oslo")); n != 0 {
					t.Errorf("%d placements are used that are gone", n)
				}
			})
		})
	}
}

// An agent repeats its advertisement every 30 s, mostly unchanged. A refused request must not make
// the broker record the repetition.
func TestUnchangedOfferIsNotRecordedForARefusal(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		f.advertise("paris", "100000", "64Ti")
		before := f.records()
		_, err := f.RequestReservation(context.Background(), "rome", "key", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "200000", "memory": "1Gi"}})
		if err == nil || f.records() != before {
			t.Errorf("error %v, %d records were written", err, f.records()-before)
		}
	})
}

// Placements that a hostile provider invents must not fill the journal: other members would wait
// while the records are written.
func TestManyInventedPlacementsAreRecordedAsOneSum(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		held := f.reserve("rome", "key", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}, TargetClusterID: "paris"}).Name
		before := f.records()
		f.advertise("paris", "100000", "64Ti", func(a *v1.Advertisement) {
			a.Usage = append(a.Usage, v1.Usage{Reservation: held, Placement: 1, Used: v1.Amounts{"cpu": "2"}})
			for i := range 4095 {
				a.Usage = append(a.Usage, v1.Usage{Reservation: fmt.Sprintf("res-%010d", i), Placement: 1, Used: v1.Amounts{"cpu": "2"}})
			}
		})
		if n := f.records() - before; n != 1 {
			t.Errorf("%d records were written, want 1", n)
		}
		if used := f.used("paris"); len(used) != 2 || used[held+"-1"][corev1.ResourceCPU] != 2000 {
			t.Errorf("%d placements use capacity, and the one with a hold %v", len(used), used[held+"-1"])
		}
		f.inSession(func(s *session) {
			if claimed := s.book.Cluster("paris").Claimed()[corev1.ResourceCPU]; claimed != 4096*2000 {
				t.Errorf("%dm of cpu is claimed, want that of all 4096 placements", claimed)
			}
		})
	})
}

func TestOversizedAdvertisementIsRefusedWithItsSize(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		labels := map[string]string{}
		for i := range 16 {
			labels[fmt.Sprintf("%s.example.com/label-%d", strings.Repeat("a", 60), i)] = strings.Repeat("b", 63)
		}
		adv := &v1.Advertisement{
			ClusterID: "oslo", Epoch: 1, Sequence: 1,
			Capacity: v1.Amounts{"cpu": "100000"}, Allocatable: v1.Amounts{"cpu": "100000"}, Allocated: v1.Amounts{},
		}
		for i := range 256 {
			adv.NodeShapes = append(adv.NodeShapes, v1.NodeShape{Count: 1, Free: v1.Amounts{"cpu": fmt.Sprint(i)}, NodeLabels: labels})
		}
		_, err := f.PublishAdvertisement(context.Background(), "oslo", adv)
		if fault.ReasonOf(err) != fault.TooLarge || !strings.Contains(err.Error(), "65536 fit") {
			t.Errorf("got %v", err)
		}
	})
}

func TestExceededBudgetIsShownForAWhile(t *testing.T) {
	withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
		f.NoteRefusal("rome", "rate", "member rome asks too often")
		over := func() []string {
			view, err := f.Cluster(context.Background(), "rome")
			runtest.Check(t, err)
			return view.OverBudget
		}
		if got := over(); len(got) != 1 || got[0] != "member rome asks too often" {
			t.Errorf("it shows %q", got)
		}
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if got := over(); len(got) != 0 {
			t.Errorf("later it shows %q", got)
		}
	})
}

// The announced placements never existed. Unless the state was restored, the broker believes none
// of them.
func TestInventedHoldingsAreNotBelieved(t *testing.T) {
	invent := func(n int, consumerID string) []v1.ProvidedPlacement {
		var out []v1.ProvidedPlacement
		for i := range n {
			out = append(out, v1.ProvidedPlacement{
				Reservation: fmt.Sprintf("res-invent%04d", i), Placement: 100, ConsumerID: consumerID, Resources: v1.Amounts{"cpu": "1m"}, Acknowledged: true,
			})
		}
		return out
	}
	count := func(f *fleet) (n int) {
		f.inSession(func(t *session) {
			t.book.Reservations(func(r *ledger.Reservation) {
				if r.EndReason == "" {
					n++
				}
			})
		})
		return n
	}
	t.Run("unasked", func(t *testing.T) {
		withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
			before := f.records()
			err := f.AnnounceHoldings(context.Background(), "paris", &v1.Holdings{Provides: invent(2048, "rome")})
			if fault.ReasonOf(err) != fault.Conflict || !strings.Contains(err.Error(), `no announcement of cluster "paris" is awaited`) {
				t.Errorf("an announcement that is not awaited: %v, want a Conflict", err)
			}
			if count(f) != 0 || f.records() != before {
				t.Errorf("%d reservations are in the book, %d records were written", count(f), f.records()-before)
			}
		})
	})
	// ask makes paris report usage of a placement that the broker does not know, so that the broker
	// asks paris for its holdings.
	ask := func(f *fleet) {
		f.advertise("paris", "100000", "64Ti", func(a *v1.Advertisement) {
			a.Usage = []v1.Usage{{Reservation: "res-invent0000", Placement: 1, Used: v1.Amounts{"cpu": "1m"}}}
		})
	}
	t.Run("in the name of a cluster that wants none of it", func(t *testing.T) {
		withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
			ask(f)
			f.announce("paris", invent(2048, "rome"))
			if list := f.poll("rome", ""); !list.Announce {
				t.Error("rome is not asked whether it wants what is announced in its name")
			}
			f.announce("rome", nil)
			if n := count(f); n != 0 {
				t.Errorf("%d reservations stand in rome's name", n)
			}
			f.announce("paris", invent(2048, "rome")) // a repetition is answered
			if n := count(f); n != 0 {
				t.Errorf("%d reservations stand after it was said again", n)
			}
		})
	})
	t.Run("in the name of nobody", func(t *testing.T) {
		withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
			ask(f)
			f.announce("paris", invent(100, "nobody"))
			time.Sleep(10*time.Minute + time.Second)
			synctest.Wait()
			if n := count(f); n != 0 {
				t.Errorf("%d reservations of nobody stand", n)
			}
		})
	})
	t.Run("more than the cluster has", func(t *testing.T) {
		withBudget(t, func(*budget.Budget) {}, func(f *fleet) {
			ask(f)
			provides := invent(10, "rome")
			for i := range provides {
				provides[i].Resources = v1.Amounts{"cpu": "30000"}
			}
			f.announce("paris", provides)
			if n := count(f); n != 3 {
				t.Errorf("%d of 30000 cores each are in the book of a cluster with 100000", n)
			}
		})
	})
}
