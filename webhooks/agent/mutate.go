package agent

import (
	"encoding/json"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// patchObject answers a review with a patch of what change changes in the object. It refuses the
// object if change returns a refusal, and otherwise admits it with the warnings.
//
// Both sides of the patch are marshalled from T. Fields that this type does not know are on neither
// side, so the patch keeps them.
func patchObject[T any](req admission.Request, change func(*T) (changed bool, warnings []string, refusal error)) admission.Response {
	object := new(T)
	if err := json.Unmarshal(req.Object.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	changed, warnings, refusal := change(object)
	if refusal != nil {
		return admission.Denied(refusal.Error())
	}
	if !changed {
		return admission.Allowed("").WithWarnings(warnings...)
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after).WithWarnings(warnings...)
}
