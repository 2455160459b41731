package requests

import (
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Read returns the request that a cluster sends with an idempotency key. It returns fault.Forbidden
// for a request in the name of another cluster, and fault.Invalid for one that no broker accepts.
func Read(clusterID, key string, req *v1.ReservationRequest) (*Request, error) {
	if req.RequesterID != "" && req.RequesterID != clusterID {
		return nil, fault.New(fault.Forbidden, "the certificate is that of cluster %q: it cannot ask for %q", clusterID, req.RequesterID)
	}
	amounts, err := wire.ToAmounts(req.Resources)
	if err != nil {
		return nil, fault.New(fault.Invalid, "resources: %v", err)
	}
	if err := CheckDuration(req.DurationSeconds); err != nil {
		return nil, err
	}
	if most := int64(LongestDuration / time.Second); req.QueueTimeoutSeconds < 0 || req.QueueTimeoutSeconds > most {
		return nil, fault.New(fault.Invalid, "queueTimeoutSeconds: %d is not between 0 and %d", req.QueueTimeoutSeconds, most)
	}
	if p := req.QueuePolicy; p != "" && !p.Valid() {
		return nil, fault.New(fault.Invalid, "queuePolicy: %q is neither Fail nor Queue", p)
	}
	if h := req.Healing; h != "" && !h.Valid() {
		return nil, fault.New(fault.Invalid, "healing: %q is neither Migrate nor Wait", h)
	}
	idle, err := readIdlePolicy(req.Idle)
	if err != nil {
		return nil, err
	}
	if err := actor.Check(req.Actor); err != nil {
		return nil, fault.New(fault.Invalid, "actor: %v", err)
	}
	demands, err := wire.ToRequirements(req)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	q := &Request{Holds: req.Reservation, Quote: req.Quote, By: ledger.UserOf(clusterID, req.Actor), Request: ledger.Request{
		Requester: clusterID, Key: key, Tenant: req.Tenant, Priority: req.Priority, Amounts: amounts,
		Target: req.TargetClusterID, Duration: time.Duration(req.DurationSeconds) * time.Second,
		Queue: req.QueuePolicy == v1.ReservationRequestQueuePolicyQueue,
		Wait:  time.Duration(req.QueueTimeoutSeconds) * time.Second, Patient: req.Healing == v1.ReservationRequestHealingWait, Idle: idle,
		Requirements: requirements.OrNil(demands),
	}}
	return q, q.Complete()
}

func readIdlePolicy(p *v1.Idle) (*ledger.IdlePolicy, error) {
	if p == nil {
		return nil, nil
	}
	if least, most := int64(ShortestIdle/time.Second), int64(LongestDuration/time.Second); p.AfterSeconds < least || p.AfterSeconds > most {
		return nil, fault.New(fault.Invalid, "idle.afterSeconds: %d is not between %d and %d", p.AfterSeconds, least, most)
	}
	if !p.Action.Valid() {
		return nil, fault.New(fault.Invalid, "idle.action: %q is neither Notify nor Release", p.Action)
	}
	return &ledger.IdlePolicy{After: time.Duration(p.AfterSeconds) * time.Second, Release: p.Action == v1.IdleActionRelease}, nil
}

// CheckDuration returns fault.Invalid for a duration below one minute or above LongestDuration. It
// accepts 0, which means no duration.
func CheckDuration(seconds int64) error {
	if seconds != 0 && seconds < 60 {
		return fault.New(fault.Invalid, "durationSeconds: %d is too short, the least is 60", seconds)
	}
	if most := int64(LongestDuration / time.Second); seconds > most {
		return fault.New(fault.Invalid, "durationSeconds: %d is too long, the most is %d", seconds, most)
	}
	return nil
}
