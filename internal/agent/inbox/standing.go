package inbox

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// standing are the placements that the broker wants and no ResourceRequest looks after, by
// the names of their instructions, each with a place to read it into. The broker tells of
// them once: without one that somebody deleted by hand it would go on to believe in a
// placement that this cluster has taken down.
type standing map[string]client.Object

func (s standing) note(in *v1.Instruction, into client.Object) {
	if in.State == v1.InstructionStateHold {
		s[placement.Name(in.Reservation, in.Placement)] = into
	}
}

func (s standing) drop(in *v1.Instruction) {
	delete(s, placement.Name(in.Reservation, in.Placement))
}

// mend returns, in place of a list with nothing new, everything that the broker wants if
// an instruction of it is gone.
func (i *Instructions) mend(ctx context.Context, nothing *v1.InstructionList) (*v1.InstructionList, error) {
	for name, obj := range i.standing {
		key := client.ObjectKey{Namespace: i.options.Namespace, Name: name}
		if !apierrors.IsNotFound(i.client.Get(ctx, key, obj)) || !apierrors.IsNotFound(i.options.Reader.Get(ctx, key, obj)) {
			continue
		}
		log.FromContext(ctx).Info("an instruction was deleted, and the broker wants it carried out: writing it again", "instruction", name)
		all, err := i.broker.FetchInstructions(ctx, "", 0)
		if err == nil {
			delete(i.standing, name)
		}
		return all, err
	}
	return nothing, nil
}
