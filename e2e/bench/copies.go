package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// copies fills etcd with copies of the broker's objects. It does not use the API server, which would need minutes
// to create them.
type copies struct {
	etcd string
	// cluster is a sample of a ClusterAdvertisement, reservation of a Reservation.
	cluster, reservation sample
}

// sample is an object as etcd stores it.
type sample struct {
	name       string
	key, value []byte
}

// samples lets the real broker create one object for a cluster and one for a reservation, and reads both.
func (s *site) samples(ctx context.Context) (*copies, error) {
	broker, err := s.startBroker(ctx, "broker", false)
	if err != nil {
		return nil, err
	}
	defer broker.Stop()
	const candidates = 12
	agents, err := s.fleet(candidates, broker.url)
	if err != nil {
		return nil, err
	}
	if err := agents.all(ctx, 1); err != nil {
		return nil, err
	}
	r, err := agents[0].reserve(ctx, "sample-request")
	if err != nil {
		return nil, err
	}
	err = awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
		var reservation brokerv1alpha1.Reservation
		var cluster brokerv1alpha1.ClusterAdvertisement
		err := errors.Join(
			client.IgnoreNotFound(s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Name}, &reservation)),
			client.IgnoreNotFound(s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterID(0)}, &cluster)))
		return reservation.Status.Phase == brokerv1alpha1.ReservationReserved && cluster.Status.Phase != "", err
	})
	if err != nil {
		return nil, err
	}
	address, err := s.address("etcd")
	if err != nil {
		return nil, err
	}
	c := &copies{etcd: "http://" + address}
	if c.cluster, err = c.read(ctx, "clusteradvertisements", clusterID(0)); err != nil {
		return nil, err
	}
	c.reservation, err = c.read(ctx, "reservations", r.Name)
	return c, err
}

// keyValue is a message of etcd's JSON API, which encodes bytes in base64.
type keyValue struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

func (c *copies) read(ctx context.Context, resource, name string) (sample, error) {
	key := []byte(fmt.Sprintf("/registry/%s/%s/%s/%s", brokerv1alpha1.GroupVersion.Group, resource, namespace, name))
	found, err := post[struct {
		KVs []keyValue `json:"kvs"`
	}](ctx, c.etcd+"/v3/kv/range", keyValue{Key: key})
	if err != nil {
		return sample{}, err
	}
	if len(found.KVs) != 1 {
		return sample{}, fmt.Errorf("etcd has %d objects %q", len(found.KVs), key)
	}
	return sample{name, key, found.KVs[0].Value}, nil
}

// copy returns a copy of the sample with another name of the same length.
func (s sample) copy(i int) keyValue {
	name := fmt.Sprintf("copy-%0*d", len(s.name)-len("copy-"), i)
	rename := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(s.name), []byte(name)) }
	return keyValue{rename(s.key), rename(s.value)}
}

// inTransaction is the maximum number of writes in one transaction of etcd.
const inTransaction = 128

func (c *copies) write(ctx context.Context, s settings) error {
	return errors.Join(c.writeAll(ctx, c.cluster, s.clusters), c.writeAll(ctx, c.reservation, s.reservations))
}

func (c *copies) writeAll(ctx context.Context, s sample, n int) error {
	type put struct {
		Put keyValue `json:"request_put"`
	}
	for i := 0; i < n; i += inTransaction {
		var puts []put
		for j := i; j < min(i+inTransaction, n); j++ {
			puts = append(puts, put{s.copy(j)})
		}
		answer, err := post[struct{ Succeeded bool }](ctx, c.etcd+"/v3/kv/txn", map[string]any{"success": puts})
		if err != nil {
			return err
		}
		if !answer.Succeeded {
			return errors.New("etcd refused a transaction without conditions")
		}
	}
	return nil
}

func post[T any](ctx context.Context, url string, what any) (*T, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return answerOf[T](http.DefaultClient.Do(request)) //nolint:bodyclose // answerOf closes it
}
