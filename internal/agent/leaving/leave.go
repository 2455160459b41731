package leaving

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

const (
	// leaveTimeout is how long agent uninstall waits for the broker to learn of the uninstallation.
	leaveTimeout = 20 * time.Second
	// leavePoll is how often agent uninstall reads the condition Leaving.
	leavePoll = 500 * time.Millisecond
	// leaveMargin is added to the timeout of the drain, and the sum is how long the announcement is in
	// force. Without this margin, the agent could offer capacity again before it is deleted.
	leaveMargin = 2 * time.Minute
)

// unsure is appended to an error after which the broker may not know of the uninstallation.
const unsure = "the broker may grant capacity here until the agent has been silent for three intervals"

// Leaver makes the running agent announce to the broker that it is being uninstalled.
type Leaver struct {
	client        client.Client
	advertisement client.ObjectKey
	// lasts is how long the announcement is in force.
	lasts time.Duration
	clock clock.WithTicker
}

// NewLeaver returns a Leaver for an Advertisement. The announcement is in force for longer than the
// timeout of the uninstallation.
func NewLeaver(c client.Client, advertisement client.ObjectKey, timeout time.Duration, clock clock.WithTicker) *Leaver {
	return &Leaver{client: c, advertisement: advertisement, lasts: timeout + leaveMargin, clock: clock}
}

// StopLending makes the agent announce that this cluster takes no new placements, and waits until
// the broker knows. It returns an error if the broker may still grant capacity of this cluster.
func (l *Leaver) StopLending(ctx context.Context) error {
	written, err := l.announceUntil(ctx, l.clock.Now().Add(l.lasts).UTC().Format(time.RFC3339))
	switch {
	case err != nil:
		return fmt.Errorf("%w; %s", err, unsure)
	case !written:
		return nil // the cluster has no offer
	}
	enough, look := l.clock.Now().Add(leaveTimeout), l.clock.NewTicker(leavePoll)
	defer look.Stop()
	for {
		err := l.checkKnown(ctx)
		if err == nil {
			return nil
		}
		if !l.clock.Now().Before(enough) {
			return fmt.Errorf("%w; %s", err, unsure)
		}
		select {
		case <-look.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// checkKnown returns nil if the condition Leaving says that the broker knows of the uninstallation.
func (l *Leaver) checkKnown(ctx context.Context) error {
	adv, err := l.readAdvertisement(ctx)
	if err != nil {
		return err
	}
	switch c := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionLeaving); {
	case c == nil:
		return fmt.Errorf("the agent has not told the broker within %s that it is being uninstalled: check that it runs", leaveTimeout)
	case c.Status != metav1.ConditionTrue:
		return fmt.Errorf("the broker does not know that the agent is being uninstalled: %s", c.Message)
	}
	return nil
}

// ResumeLending withdraws the announcement, so that the agent offers this cluster's capacity again.
func (l *Leaver) ResumeLending(ctx context.Context) error {
	if _, err := l.announceUntil(ctx, ""); err != nil {
		return fmt.Errorf("%w; this cluster lends nothing for %s at most", err, l.lasts)
	}
	return nil
}

// announceUntil sets LeavingUntilAnnotation of the Advertisement, or removes it if until is empty. found
// is false if there is no Advertisement.
func (l *Leaver) announceUntil(ctx context.Context, until string) (found bool, err error) {
	adv, err := l.readAdvertisement(ctx)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, err
	case adv.Annotations[agentv1alpha1.LeavingUntilAnnotation] == until:
		return true, nil
	}
	before := adv.DeepCopy()
	if until == "" {
		delete(adv.Annotations, agentv1alpha1.LeavingUntilAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&adv.ObjectMeta, agentv1alpha1.LeavingUntilAnnotation, until)
	}
	if err := l.client.Patch(ctx, adv, client.MergeFrom(before)); err != nil {
		return true, fmt.Errorf("writing annotation %s of Advertisement %q: %w", agentv1alpha1.LeavingUntilAnnotation, l.advertisement, err)
	}
	return true, nil
}

func (l *Leaver) readAdvertisement(ctx context.Context) (*agentv1alpha1.Advertisement, error) {
	adv := &agentv1alpha1.Advertisement{}
	if err := l.client.Get(ctx, l.advertisement, adv); err != nil {
		return nil, fmt.Errorf("reading Advertisement %q: %w", l.advertisement, err)
	}
	return adv, nil
}
