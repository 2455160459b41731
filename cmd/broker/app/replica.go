package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replica"
)

// leaseName is the name of the lease for leader election. It need not be the name of the journal.
const leaseName = "liqo-resource-broker"

// leaseCache limits the cache of Leases to the lease for leader election, so that the broker needs
// rights only to this lease.
func leaseCache(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&coordinationv1.Lease{}: {
		Namespaces: map[string]cache.Config{namespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", leaseName),
	}}
}

// addElection adds the election to the manager. While this replica holds the lease, the broker
// leads: it makes the decisions and writes the journal. Otherwise it follows: it only reads the
// journal.
func addElection(mgr ctrl.Manager, o *options, b *broker.Broker, log logr.Logger) (*replica.Election, error) {
	address, err := o.replicaAddress()
	if err != nil {
		return nil, err
	}
	e, err := replica.New(replica.Options{
		Config: mgr.GetConfig(), Cache: mgr.GetCache(), Namespace: o.namespace, Name: leaseName,
		Address: address, Webhooks: o.webhooksAddress(), Follow: b.Follow, Lead: b.Run, Log: log, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	return e, mgr.Add(e)
}

// replicaAddress returns the address at which other replicas reach this one. It is empty if the
// broker runs without --cert-path, since then it serves no agents.
func (o *options) replicaAddress() (string, error) {
	if o.certPath == "" {
		return "", nil
	}
	_, port, err := net.SplitHostPort(o.directAddress)
	if err != nil {
		return "", fmt.Errorf("--direct-bind-address %q: %w", o.directAddress, err)
	}
	host := cmp.Or(o.advertiseAddress, os.Getenv("POD_IP"))
	if host == "" {
		return "", fmt.Errorf("--leader-elect: other replicas need the address of this one: set --advertise-address or POD_IP")
	}
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host, nil
	}
	return net.JoinHostPort(host, port), nil
}

// webhooksAddress returns the address at which other replicas reach the webhooks of this replica,
// "" if it serves none.
func (o *options) webhooksAddress() string {
	host := cmp.Or(o.advertiseAddress, os.Getenv("POD_IP"))
	if only, _, err := net.SplitHostPort(host); err == nil {
		host = only
	}
	_, port, err := net.SplitHostPort(o.webhook.Address)
	if err != nil || host == "" || !o.webhook.Enabled() {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// openListeners opens the listener for agents and the listener for agents that other replicas
// forward.
func openListeners(ctx context.Context, mgr ctrl.Manager, o *options, e *replica.Election, log logr.Logger) (front, direct net.Listener, err error) {
	outer, err := listenOn(ctx, "--bind-address", o.bindAddress)
	if err != nil {
		return nil, nil, err
	}
	direct, err = listenOn(ctx, "--direct-bind-address", o.directAddress)
	if err != nil {
		return nil, nil, err
	}
	f := replica.NewFront(outer, e, log)
	return f, direct, mgr.Add(f)
}

// keepAlive closes connections whose peer has vanished, after 30 s without an answer.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func listenOn(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}
