package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Idle says what happens to a reservation that nobody uses: no pod is on its virtual node, and its
// provider reports that no pod of it runs there. Finished pods and pods of DaemonSets do not count.
type Idle struct {
	// after is how long the reservation must be idle, from 1m to 87600h. The time begins again when a
	// pod comes, when the reservation moves, when the provider or the requester is silent, and when
	// another replica of the broker takes over.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="after must be at least 1m and at most 87600h, for example 2h30m"
	After metav1.Duration `json:"after"`

	// action says what happens then. Notify only sets condition Idle. Release ends the reservation;
	// condition Idle announces that when half of the time is over, but at most one hour before.
	// +required
	Action IdleAction `json:"action"`
}

// IdleAction says what happens to a reservation that nobody uses.
//
// +kubebuilder:validation:Enum=Notify;Release
type IdleAction string

// Values of IdleAction.
const (
	// IdleNotify only tells that the reservation is idle.
	IdleNotify IdleAction = "Notify"
	// IdleRelease ends the reservation.
	IdleRelease IdleAction = "Release"
)
