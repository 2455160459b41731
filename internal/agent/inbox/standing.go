package inbox

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

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
