package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

const (
	// burst is how many requests the broker accepts from one cluster at once.
	burst = 100
	// pace is a load in reservations per second that a broker can carry permanently.
	pace = 40
	// paced is how long the load with the rate pace lasts.
	paced = 10 * time.Second
)

// projection measures how the real broker writes reservations to objects: the delay under a steady load, and the
// time for reservations that are all granted at once.
var projection = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	broker, err := at.startBroker(ctx, "broker", false)
	if err != nil {
		return err
	}
	if err := at.lend(ctx, s.lenders); err != nil {
		return err
	}
	clusters := (s.backlog + burst - 1) / burst
	agents, err := at.connectAll(clusters, "client", broker.url)
	if err != nil {
		return err
	}
	shown, stop, err := at.watchShown(ctx)
	if err != nil {
		return err
	}
	defer stop()

	asked := map[string]time.Time{}
	for i := range int(pace * min(paced, time.Duration(s.backlog)*time.Second/pace/2) / time.Second) {
		next := time.After(time.Second / pace)
		r, err := agents[i%clusters].RequestReservation(ctx, fmt.Sprintf("paced-request-%d", i), oneCPU())
		if err != nil {
			return err
		}
		asked[r.Name] = time.Now()
		<-next
	}
	if err := awaitCondition(ctx, waitTimeout, func(context.Context) (bool, error) { return shown.count() == len(asked), nil }); err != nil {
		return err
	}
	var lags []time.Duration
	for name, granted := range asked {
		lags = append(lags, max(0, shown.at[name].Sub(granted)))
	}
	t.row("a grant is shown in its object's status, p99", milliseconds(quantile(lags, .99)), only("ms"),
		"%d grants a second; p50 %.0f ms", pace, milliseconds(quantile(lags, .5)))

	began := time.Now()
	_, answered, err := requestAll(ctx, agents, s.backlog)
	if err != nil {
		return err
	}
	granted := time.Since(began)
	if err := awaitCondition(ctx, 10*waitTimeout, func(context.Context) (bool, error) {
		return shown.count() == len(asked)+len(answered), nil
	}); err != nil {
		return fmt.Errorf("%d of %d are shown: %w", shown.count()-len(asked), len(answered), err)
	}
	drained := time.Since(began)
	t.row(fmt.Sprintf("%d reservations at once are shown", s.backlog), drained.Seconds(), goal{must: 60, unit: "s"},
		"granted within %.1f s, all of it counted from the first request", granted.Seconds())
	t.row("sustained rate with projection", float64(s.backlog)/drained.Seconds(), only("/s"), "two writes each, as above")
	return nil
})

// watchShown records when the status of each Reservation first names a provider. It watches only for this and
// reads only metadata, so that it does not disturb the measurement.
func (s *site) watchShown(ctx context.Context) (*arrivals, func(), error) {
	watching, stop := context.WithCancel(ctx)
	names := &metav1.PartialObjectMetadataList{}
	names.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("ReservationList"))
	w, err := s.Watch(watching, names, client.InNamespace(namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("status.targetClusterID", "")})
	if err != nil {
		stop()
		return nil, nil, err
	}
	a := &arrivals{at: map[string]time.Time{}}
	var following sync.WaitGroup
	following.Go(func() {
		for event := range w.ResultChan() {
			if r, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
				a.note(r.Name, time.Now())
			}
		}
	})
	return a, func() { stop(); w.Stop(); following.Wait() }, nil
}
