package v1alpha1

// Healing says what happens to a reservation when the agent of its provider stops answering, or
// when its virtual node is no longer Ready.
//
// +kubebuilder:validation:Enum=Migrate;Wait
type Healing string

// Values of Healing.
const (
	// HealingMigrate moves the reservation to another cluster with room. The old virtual node
	// stays until the new one is Ready.
	HealingMigrate Healing = "Migrate"
	// HealingWait keeps the reservation at its provider until that provider is back.
	HealingWait Healing = "Wait"
)
