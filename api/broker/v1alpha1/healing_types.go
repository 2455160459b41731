package v1alpha1

// Healing says what happens to a reservation whose provider is lost.
//
// +kubebuilder:validation:Enum=Migrate;Wait
type Healing string

// Ways to heal.
const (
	// HealingMigrate takes it to another cluster that has room; the old virtual node is
	// left only when the new one is Ready.
	HealingMigrate Healing = "Migrate"
	// HealingWait waits for the provider.
	HealingWait Healing = "Wait"
)
