package app

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ledgerBook records events in the journal of a real cluster, as a broker does.
type ledgerBook struct {
	t       *testing.T
	store   journal.Store
	journal *journal.Journal
	book    *replay.Book
	now     time.Time
}

func (b *ledgerBook) record(changes ...ledger.Change) {
	b.t.Helper()
	for _, change := range changes {
		e := ledger.Event{At: b.now, Change: change}
		checked, err := b.book.State.Check(&e)
		if err == nil {
			err = b.book.CheckEvent(&e)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		data, err := e.MarshalJSON()
		if err != nil {
			b.t.Fatal(err)
		}
		commit := b.journal.Append(data)
		if err := commit.Wait(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		b.book.ApplyEvent(checked, &e, commit.Position())
	}
}

// serve advances the clock while the broker serves.
func (b *ledgerBook) serve(d time.Duration) {
	b.t.Helper()
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(10 * time.Minute)
		b.record(&ledger.Observe{})
	}
}

// storeEnded stores all ended periods except the last.
func (b *ledgerBook) storeEnded() {
	b.t.Helper()
	for len(b.book.Costs.Ended()) > 1 {
		p, _ := b.book.Costs.NextEnded()
		text, err := p.Encode()
		if err != nil {
			b.t.Fatal(err)
		}
		objects, err := replay.PackPeriod(defaultJournal, &p, text)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, obj := range objects {
			if _, err := b.store.Create(b.t.Context(), obj); err != nil {
				b.t.Fatal(err)
			}
		}
		b.record(&ledger.ClosePeriod{Period: p.Name(), Hash: accounts.Hash(text)})
	}
}

// writeAccounts writes a journal and stored periods into the broker's namespace. From 22:00 on the last day of October,
// rome pays for four cores on paris and uses three of them. milan gets two cores on bern for nothing. The newest event
// is at 02:10 in November.
func writeAccounts(t *testing.T, kubeconfig string) {
	t.Helper()
	b := openBook(t, configOf(t, kubeconfig, "broker"))
	room := quantity.Amounts{"cpu": 16000, "memory": 64 << 30}
	used := map[string]quantity.Amounts{brokerv1alpha1.PlacementName("res-k3v9x2m7qa", 1): {"cpu": 3000}}
	b.record(
		&ledger.Offer{ClusterID: "rome", Agent: true, Capacity: room, Allocatable: room}, &ledger.Offer{ClusterID: "milan", Capacity: room, Allocatable: room},
		&ledger.Offer{ClusterID: "paris", Agent: true, Capacity: room, Allocatable: room, Used: used, Cost: &brokerv1alpha1.Cost{Currency: "EUR", CPUCost: "0.2", MemoryCost: "0.01"}},
		&ledger.Offer{ClusterID: "bern", Capacity: room, Allocatable: room},
	)
	b.reserve("res-k3v9x2m7qa", "rome", "blue", "paris", quantity.Amounts{"cpu": 4000, "memory": 8 << 30})
	b.record(&ledger.Acknowledge{PlacementRef: ledger.PlacementRef{Name: "res-k3v9x2m7qa", Placement: 1}})
	b.reserve("res-a1b2c3d4e5", "milan", "", "bern", quantity.Amounts{"cpu": 2000})
	b.serve(4*time.Hour + 10*time.Minute)
	b.storeEnded()
}

func (b *ledgerBook) reserve(name, requester, tenant, provider string, amounts quantity.Amounts) {
	b.t.Helper()
	request := ledger.Request{Requester: requester, Key: name, Tenant: tenant, Amounts: amounts, Duration: 24 * time.Hour}
	b.record(&ledger.Reserve{Name: name, Request: request, Until: b.now.Add(24 * time.Hour), Provider: provider, Price: b.book.State.Cluster(provider).PriceFor(&request)})
}

func openBook(t *testing.T, config *rest.Config) *ledgerBook {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err == nil {
		err = c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: defaultNamespace}})
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := journal.NewConfigMaps(config, defaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	j, recovery, err := journal.Open(t.Context(), store, defaultJournal, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	book, err := replay.Read(recovery)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return &ledgerBook{t: t, store: store, journal: j, book: book, now: time.Date(2026, time.October, 31, 22, 0, 0, 0, time.UTC)}
}
