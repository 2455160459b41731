package requests

import brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"

// Groups returns the groups that affinity and anti-affinity name.
func Groups(k *brokerv1alpha1.Constraints) (affinity, anti []string) {
	if k == nil {
		return nil, nil
	}
	return k.Affinity, k.AntiAffinity
}
