package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// Options of Instructions and Messages.
type Options struct {
	Namespace string
	// Interval is the pause between two polls of a broker that answers at once although it has no news.
	Interval time.Duration
	// RefuseBrokerReservations makes the agent decline reservations that were made in the broker's cluster.
	RefuseBrokerReservations bool
	// Hold says whether placeholder pods keep the capacity that this cluster provides.
	Hold      agentv1alpha1.Hold
	ClusterID string
	// Reader reads, from the API server, the objects from which the holdings are computed.
	Reader client.Reader
	// Look is called with the name of a ResourceRequest whose phase has changed at the broker, for
	// example in the queue. Instructions do not contain this phase.
	Look  func(types.NamespacedName)
	Clock clock.Clock
	// HideActors makes the agent send no names of users to the broker.
	HideActors bool
	// Receipts checks the broker's receipts. If it is nil, none are kept.
	Receipts *receipt.Checker
}

// Broker is the part of a broker transport that Instructions needs.
type Broker interface {
	FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error)
	transport.Releaser
	transport.StatusReporter
	transport.Announcer
}

// Instructions writes the broker's instructions as objects. It runs only on the leading replica.
type Instructions struct {
	client   client.Client
	broker   Broker
	options  Options
	standing standing
}

// NewInstructions returns an inbox for the broker's instructions.
func NewInstructions(c client.Client, broker Broker, options Options) *Instructions {
	return &Instructions{client: c, broker: broker, options: options, standing: standing{}}
}

// Start polls the broker until ctx ends.
func (i *Instructions) Start(ctx context.Context) error {
	p := poller{
		ask: i.fetchAnswer, interval: i.options.Interval, clock: i.options.Clock,
		log: log.FromContext(ctx).WithName("inbox").WithValues("of", "instructions"),
	}
	return p.pollUntilDone(ctx)
}

// fetchAnswer fetches the next instructions and applies them. If some of them cannot be applied, it
// still applies the others and returns an error, so that the same answer is fetched again.
func (i *Instructions) fetchAnswer(ctx context.Context, cursor string) (answer, error) {
	list, err := i.broker.FetchInstructions(ctx, cursor, longPoll)
	switch {
	case err != nil:
	case list.Announce:
		list, err = i.announceHoldings(ctx)
	case len(list.Instructions)+len(list.Requests) == 0:
		list, err = i.restoreDeleted(ctx, list)
	}
	if err != nil {
		return answer{}, err
	}
	received := i.options.Clock.Now()
	var failed []error
	for n := range list.Instructions {
		if err := i.applyInstruction(ctx, &list.Instructions[n], received); err != nil {
			failed = append(failed, err)
		}
	}
	for n := range list.Requests {
		if err := i.passNews(ctx, &list.Requests[n]); err != nil {
			failed = append(failed, err)
		}
	}
	return answer{cursor: list.Cursor, items: len(list.Instructions) + len(list.Requests)}, errors.Join(failed...)
}

// passNews calls Look for a request whose phase at the broker differs from its phase here, unless
// the request is being deleted. If the broker has queued a request that no longer exists here,
// passNews releases the reservation of that request.
func (i *Instructions) passNews(ctx context.Context, news *v1.RequestNews) error {
	rr, err := i.requestOf(ctx, news.Key)
	switch {
	case err != nil:
		return err
	case rr == nil:
		if news.Phase != v1.RequestNewsPhaseQueued {
			return nil
		}
		return i.giveBack(ctx, &v1.Instruction{Reservation: news.Reservation, Key: news.Key})
	case rr.DeletionTimestamp == nil && string(rr.Status.Phase) != string(news.Phase):
		i.options.Look(client.ObjectKeyFromObject(rr))
	}
	return nil
}

func (i *Instructions) applyInstruction(ctx context.Context, in *v1.Instruction, received time.Time) error {
	if !in.Role.Valid() || !in.State.Valid() {
		log.FromContext(ctx).Info("skipping an instruction of a newer broker: upgrade this agent",
			"reservation", in.Reservation, "role", in.Role, "state", in.State)
		return nil
	}
	var err error
	i.standing.dropInstruction(in)
	if in.Role == v1.InstructionRoleProvider {
		i.standing.noteInstruction(in, &agentv1alpha1.ProviderInstruction{})
		err = writeProvider(ctx, i.client, &i.options, in, received)
	} else {
		err = i.applyConsumer(ctx, in, received)
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrUnusable):
		return err
	default:
		// Decline the placement, because the broker would otherwise send the same instruction again
		// and again.
		i.standing.dropInstruction(in)
		log.FromContext(ctx).Error(err, "declining an instruction that cannot be carried out", "reservation", in.Reservation, "placement", in.Placement)
		return i.declinePlacement(ctx, in, agentv1alpha1.ReasonInvalid, err.Error())
	}
}

func (i *Instructions) applyConsumer(ctx context.Context, in *v1.Instruction, received time.Time) error {
	if in.State != v1.InstructionStateHold {
		return i.releaseConsumer(ctx, in, received)
	}
	if in.Key == "" {
		return i.applyUnrequested(ctx, in, received)
	}
	rr, err := i.requestOf(ctx, in.Key)
	switch {
	case err != nil:
		return err
	case rr == nil:
		return i.giveBack(ctx, in)
	case rr.DeletionTimestamp != nil:
		// The controller of ResourceRequests releases the reservation.
		return nil
	}
	access, err := namespaces.Divide(ctx, i.client, rr)
	if err != nil {
		return err
	}
	_, err = i.writer().WriteConsumer(ctx, in, RequestOf(rr, access.Open), received)
	return err
}

func (i *Instructions) writer() Writer {
	return Writer{i.client, i.options.Namespace, i.options.Receipts}
}

// applyUnrequested carries out a reservation that was made in the broker's cluster. With
// RefuseBrokerReservations it declines new ones; reservations that were accepted earlier continue.
func (i *Instructions) applyUnrequested(ctx context.Context, in *v1.Instruction, received time.Time) error {
	if i.options.RefuseBrokerReservations {
		known, err := i.findConsumer(ctx, in)
		if err != nil {
			return err
		}
		if known == nil {
			return i.declinePlacement(ctx, in, agentv1alpha1.ReasonRefused,
				"the cluster accepts no reservations that are made in the broker's cluster (its agent has --accept-broker-reservations=false)")
		}
	}
	i.standing.noteInstruction(in, &agentv1alpha1.ReservationInstruction{})
	_, err := i.writer().WriteConsumer(ctx, in, Request{}, received)
	return err
}

// findConsumer returns nil if there is no ReservationInstruction for an instruction of the broker.
func (i *Instructions) findConsumer(ctx context.Context, in *v1.Instruction) (*agentv1alpha1.ReservationInstruction, error) {
	obj := &agentv1alpha1.ReservationInstruction{}
	name := types.NamespacedName{Namespace: i.options.Namespace, Name: brokerv1alpha1.PlacementName(in.Reservation, in.Placement)}
	err := i.client.Get(ctx, name, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read reservation instruction %q: %w", name.Name, err)
	}
	return obj, nil
}

// requestOf returns the ResourceRequest whose current attempt has the idempotency key; nil if there is
// none.
func (i *Instructions) requestOf(ctx context.Context, key string) (*agentv1alpha1.ResourceRequest, error) {
	var list agentv1alpha1.ResourceRequestList
	if err := i.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("look for resource request %q: %w", key, err)
	}
	for n := range list.Items {
		if list.Items[n].IdempotencyKey() == key {
			return &list.Items[n], nil
		}
	}
	return nil, nil
}

// giveBack makes the broker release a reservation whose ResourceRequest no longer exists.
func (i *Instructions) giveBack(ctx context.Context, in *v1.Instruction) error {
	log.FromContext(ctx).Info("releasing a reservation without a ResourceRequest", "reservation", in.Reservation, "key", in.Key)
	if _, err := i.broker.ReleaseReservation(ctx, in.Key, ""); err != nil {
		return fmt.Errorf("release reservation %q: %w", in.Reservation, err)
	}
	return nil
}

// releaseConsumer releases the ReservationInstruction of a placement. If there is none, it reports
// to the broker that nothing of the placement is left, unless the broker already knows.
func (i *Instructions) releaseConsumer(ctx context.Context, in *v1.Instruction, received time.Time) error {
	obj, err := i.findConsumer(ctx, in)
	if err != nil {
		return err
	}
	if obj != nil {
		return EndConsumer(ctx, i.client, obj, in, i.options.Receipts, received)
	}
	if in.State == v1.InstructionStateEnded {
		return nil
	}
	return i.sendReport(ctx, in, &v1.StatusReport{
		Placement: in.Placement, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateGone,
	})
}

// declinePlacement reports to the broker that this cluster refuses a placement.
func (i *Instructions) declinePlacement(ctx context.Context, in *v1.Instruction, reason, message string) error {
	report := &v1.StatusReport{
		Placement: in.Placement, Role: v1.StatusReportRole(in.Role), State: v1.StatusReportStateRefused,
		Reason: reason, Message: message,
	}
	return i.sendReport(ctx, in, report)
}

// sendReport sends a report. It returns an error, which causes a retry, only if the broker was not
// reached or refuses all calls of this cluster. If the broker rejects the report itself, sendReport
// only logs that, because the broker would also reject a repetition.
func (i *Instructions) sendReport(ctx context.Context, in *v1.Instruction, report *v1.StatusReport) error {
	err := i.broker.ReportStatus(ctx, in.Reservation, report)
	refusal, refused := errors.AsType[*fault.Error](err)
	if errors.Is(err, transport.ErrUnreachable) || refused && refusal.OfCaller() {
		return fmt.Errorf("report placement %q: %w", brokerv1alpha1.PlacementName(in.Reservation, in.Placement), err)
	}
	if err != nil {
		log.FromContext(ctx).Info("broker refused a report", "reservation", in.Reservation, "state", report.State, "reason", err.Error())
	}
	return nil
}

// standing holds the placements that have not ended and do not belong to a ResourceRequest of this
// cluster, by the name of their instruction. The values are objects into which the instructions are
// read. The broker sends each instruction only once, so the agent needs this record to notice that
// a user has deleted such an object.
type standing map[string]client.Object

func (s standing) noteInstruction(in *v1.Instruction, into client.Object) {
	if in.State == v1.InstructionStateHold {
		s[brokerv1alpha1.PlacementName(in.Reservation, in.Placement)] = into
	}
}

func (s standing) dropInstruction(in *v1.Instruction) {
	delete(s, brokerv1alpha1.PlacementName(in.Reservation, in.Placement))
}

// restoreDeleted checks that all instructions in standing exist. If one of them does not exist, it
// fetches all instructions of the broker again and returns them. If all exist, it returns nothing,
// which is an answer without instructions.
func (i *Instructions) restoreDeleted(ctx context.Context, nothing *v1.InstructionList) (*v1.InstructionList, error) {
	for name, obj := range i.standing {
		key := client.ObjectKey{Namespace: i.options.Namespace, Name: name}
		if !apierrors.IsNotFound(i.client.Get(ctx, key, obj)) || !apierrors.IsNotFound(i.options.Reader.Get(ctx, key, obj)) {
			continue
		}
		log.FromContext(ctx).Info("an instruction was deleted but is still in force, writing it again", "instruction", name)
		all, err := i.broker.FetchInstructions(ctx, "", 0)
		if err == nil {
			delete(i.standing, name)
		}
		return all, err
	}
	return nothing, nil
}
