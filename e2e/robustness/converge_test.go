package robustness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// awaitConvergence waits until the objects equal the book, and logs how long that took since an instant.
func (s *site) awaitConvergence(since time.Time) {
	s.t.Helper()
	var differs error
	for deadline := since.Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if differs = s.findDifference(s.t.Context()); differs == nil {
			s.t.Logf("converged %s after the last fault", time.Since(since).Round(10*time.Millisecond))
			return
		}
	}
	s.t.Errorf("what is shown does not come to equal the book: %v", differs)
}

// findDifference returns an error if the broker does not answer, or if a Reservation or ClusterAdvertisement differs
// from the book.
func (s *site) findDifference(ctx context.Context) error {
	ping, err := s.caller("observer").try(ctx, "GET", "/api/v1/ping", "", nil, attempt)
	if err != nil {
		return err
	}
	if ping.status != 200 {
		return fmt.Errorf("ping: %d %s", ping.status, ping.body)
	}
	var reservations brokerv1alpha1.ReservationList
	var advertisements brokerv1alpha1.ClusterAdvertisementList
	if err := s.List(ctx, &reservations); err != nil {
		return err
	}
	if err := s.List(ctx, &advertisements); err != nil {
		return err
	}
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	if err := reservationsDiffer(s.records.book, reservations.Items); err != nil {
		return err
	}
	return figuresDiffer(s.records.book, advertisements.Items)
}

func reservationsDiffer(book *ledger.State, shown []brokerv1alpha1.Reservation) error {
	byName := map[types.NamespacedName]*brokerv1alpha1.Reservation{}
	for i := range shown {
		byName[client.ObjectKeyFromObject(&shown[i])] = &shown[i]
	}
	var differs error
	book.Reservations(func(r *ledger.Reservation) {
		key := types.NamespacedName{Namespace: namespace, Name: r.Name}
		if r.Object != nil {
			key = types.NamespacedName{Namespace: r.Object.Namespace, Name: r.Object.Name}
		}
		obj := byName[key]
		switch {
		case obj == nil && r.Over():
			// The object was deleted after the end, or the end came before it could be shown.
		case obj == nil:
			differs = fmt.Errorf("reservation %s is not shown", key)
		case string(obj.Status.Phase) != string(r.Phase()):
			differs = fmt.Errorf("reservation %s is shown as %q, it is %s", key, obj.Status.Phase, r.Phase())
		}
	})
	return differs
}

func figuresDiffer(book *ledger.State, shown []brokerv1alpha1.ClusterAdvertisement) error {
	for i := range shown {
		id := shown[i].Spec.ClusterID
		c := book.Cluster(id)
		if c == nil {
			return fmt.Errorf("cluster %s is shown, and unknown", id)
		}
		reserved, err := quantity.FromResourceList(shown[i].Spec.Resources.Reserved)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(c.Allocatable)) {
			if reserved[name] != c.Claimed()[name] {
				return fmt.Errorf("cluster %s shows %d of %s as reserved, it is %d", id, reserved[name], name, c.Claimed()[name])
			}
		}
	}
	return nil
}
