// Package election protects the leases of broker and agent, by which their replicas elect a leader.
package election

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lock is a lock for client-go's elector that never releases the lease of another holder. An elector that lost the
// lease without noticing, for example because the process was suspended, reads the lease and then releases it, whoever
// holds it. A third replica, or the one that released the lease, could then lead for seconds beside the holder.
type Lock struct {
	resourcelock.Interface
	// holder is the holder of the lease (a string) at the last time that the lease was read or written.
	holder atomic.Value
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder.Store(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, r)
	if err == nil {
		l.holder.Store(r.HolderIdentity)
	}
	return err
}

// Update implements resourcelock.Interface. A record without a holder releases the lease.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if holder, _ := l.holder.Load().(string); r.HolderIdentity == "" && holder != l.Identity() {
		return fmt.Errorf("the lease is not released, because %q holds it", holder)
	}
	err := l.Interface.Update(ctx, r)
	if err == nil {
		l.holder.Store(r.HolderIdentity)
	}
	return err
}
