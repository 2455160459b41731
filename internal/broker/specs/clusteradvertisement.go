package specs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// ReadOffer returns the offer in a ClusterAdvertisement that a person wrote, for a cluster without an agent.
func ReadOffer(obj *brokerv1alpha1.ClusterAdvertisement) (*ledger.Offer, error) {
	spec := &obj.Spec
	digest, err := digestAuthored(spec)
	if err != nil {
		return nil, err
	}
	o := &ledger.Offer{
		ClusterID: spec.ClusterID, ClusterName: spec.ClusterName, Endpoint: spec.EndpointURL,
		Labels: wire.FromLabels(spec.Labels), Claims: wire.FromLabels(spec.Claims),
		Source: &ledger.Manifest{
			ObjectRef: ledger.ObjectRef{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)},
			Digest:    digest,
		},
	}
	if spec.Topology != nil {
		o.Region, o.Zone = spec.Topology.Region, spec.Topology.Zone
	}
	if o.Capacity, err = readAmounts("capacity", spec.Resources.Capacity); err != nil {
		return nil, err
	}
	o.Allocatable = o.Capacity
	if spec.Resources.Allocatable != nil {
		if o.Allocatable, err = readAmounts("allocatable", spec.Resources.Allocatable); err != nil {
			return nil, err
		}
	}
	if o.Allocated, err = readAmounts("allocated", spec.Resources.Allocated); err != nil {
		return nil, err
	}
	if o.OverSubscription, err = quantity.ParseRatios(spec.OverSubscription); err != nil {
		return nil, fault.New(fault.Invalid, "spec.overSubscription: %v", err)
	}
	for _, s := range spec.NodeShapes {
		free, err := readAmounts("nodeShapes", s.Free)
		if err != nil {
			return nil, err
		}
		o.Shapes = append(o.Shapes, quantity.NodeShape{Count: int64(s.Count), Free: free, Labels: wire.FromLabels(s.NodeLabels), Taints: s.Taints})
	}
	o.Cost = spec.Cost.DeepCopy()
	return o, nil
}

// CheckOffer returns the error with which the broker would refuse a ClusterAdvertisement; nil if it would accept it.
func CheckOffer(obj *brokerv1alpha1.ClusterAdvertisement) error {
	offer, err := ReadOffer(obj)
	if err != nil {
		return err
	}
	return offers.Check(offer)
}

func readAmounts(field string, list corev1.ResourceList) (quantity.Amounts, error) {
	a, err := quantity.FromResourceList(list)
	if err != nil {
		return nil, fault.New(fault.Invalid, "spec.resources.%s: %v", field, err)
	}
	return a, nil
}

// digestAuthored returns a digest of those fields of a ClusterAdvertisement that its author can set. Amounts that the
// broker itself writes into the spec are left out, so that writing them does not look like a new offer.
func digestAuthored(spec *brokerv1alpha1.ClusterAdvertisementSpec) (string, error) {
	authored := spec.DeepCopy()
	authored.Resources.Reserved, authored.Resources.Available = nil, nil
	text, err := json.Marshal(authored)
	if err != nil {
		return "", fmt.Errorf("reading ClusterAdvertisement of %q: %w", spec.ClusterID, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
