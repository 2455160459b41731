package v1alpha1

// Healing says what happens to a reservation whose provider falls silent, or whose node is no
// longer Ready.
//
// +kubebuilder:validation:Enum=Migrate;Wait
type Healing string

// Values of Healing.
const (
	// HealingMigrate moves the reservation to another cluster with room. The old virtual node
	// stays until the new one is Ready.
	HealingMigrate Healing = "Migrate"
	// HealingWait waits until the provider is back.
	HealingWait Healing = "Wait"
)
