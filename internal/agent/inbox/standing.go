package inbox

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// standing are the placements that the broker wants and that no ResourceRequest watches over.
// It maps the names of their instructions to a buffer for reading each. The broker sends an
// instruction only once. If a user deletes one, this record is how the agent notices. Otherwise
// the broker would keep believing in a placement that this cluster has taken down.
type standing map[string]client.Object

func (s standing) noteInstruction(in *v1.Instruction, into client.Object) {
	if in.State == v1.InstructionStateHold {
		s[brokerv1alpha1.PlacementName(in.Reservation, in.Placement)] = into
	}
}

func (s standing) dropInstruction(in *v1.Instruction) {
	delete(s, brokerv1alpha1.PlacementName(in.Reservation, in.Placement))
}

// restoreDeleted checks that the instructions in standing exist. If one is gone, it returns all of the
// broker's instructions; otherwise it returns nothing, the list without news.
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
